// The rendezvous server's exchanges: every rank contributes bytes, and every rank receives those of all ranks.
//
// An exchange is part of a call, and all ranks must be in that call. If one is not, the rendezvous server cannot tell
// where the calls diverged, since it has no call boards. It sends a waiting rank the missing ranks, and that rank
// compares its calls with theirs.
#include <algorithm>

#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/rendezvous_server.hpp"

namespace tutti::control {
namespace {

constexpr double kLookSeconds = 1;  // between two checks of an incomplete exchange
constexpr size_t kMaxGathered = kMaxFromServer - (1 << 20);

/// "split() as call 5"
std::string describe_call(const Exchange& contribution) {
  return contribution.call != 0 ? fmt::format("{} as call {}", contribution.what, contribution.call)
                                : contribution.what;
}

}  // namespace

void RendezvousServer::on_exchange(Rank from, Exchange contribution) {
  if (failed_ || state_ != State::Running) return;
  RankState& client = joined_[static_cast<size_t>(from)];
  if (contribution.number != exchange_ || client.contribution) {
    return fail(Code::ProtocolError, fmt::format("{} gave to exchange {} while the others are at exchange {}",
                                                 describe_rank(from, client.member), contribution.number, exchange_));
  }
  if (contributions_ == 0) {
    exchange_timer_ = after(contribution.wait_ms / 1e3, &RendezvousServer::exchange_timed_out);
    check_timer_ = after(kLookSeconds, &RendezvousServer::check_exchange);
  } else if (const Exchange& theirs = *joined_[first_contributor()].contribution;
             theirs.call != contribution.call || theirs.what != contribution.what) {
    record_divergence(from, describe_call(contribution));
  }
  client.contribution = std::move(contribution);
  ++contributions_;
  const auto left = std::find_if(joined_.begin(), joined_.end(), [](const RankState& s) {
    return s.membership == RankState::Membership::Left && !s.contribution;
  });
  if (left != joined_.end()) return left_before_exchange(static_cast<Rank>(left - joined_.begin()));
  if (contributions_ == joined_.size() && divergence_.empty()) finish_exchange();
}

void RendezvousServer::finish_exchange() {
  Gathered all;
  all.number = exchange_;
  size_t bytes = 0;
  for (RankState& s : joined_) {
    bytes += s.contribution->bytes.size() + 4;
    all.bytes.push_back(std::move(s.contribution->bytes));
    s.contribution.reset();
  }
  ++exchange_;
  contributions_ = 0;
  end_exchange();
  if (bytes > kMaxGathered) {
    return fail(Code::InvalidArgument,
                fmt::format("the ranks exchange {} bytes together, over {}", bytes, kMaxGathered));
  }
  send_all(pack(all));
}

void RendezvousServer::end_exchange() {
  control_.loop().cancel(exchange_timer_);
  control_.loop().cancel(check_timer_);
}

void RendezvousServer::exchange_timed_out(uint32_t number) {
  if (failed_ || state_ != State::Running || number != exchange_ || contributions_ == 0) return;
  if (!divergence_.empty()) return fail(Code::Mismatch, divergence_);
  const Exchange& contribution = *joined_[first_contributor()].contribution;
  const auto missing = missing_ranks();
  fail(Code::Timeout, fmt::format("{} did not enter {} within {:.1f} s, though {} alive. Raise TUTTI_INIT_TIMEOUT, or "
                                  "the limit that the program gave, if that may take longer",
                                  list_ranks(missing), describe_call(contribution), contribution.wait_ms / 1e3,
                                  missing.size() == 1 ? "it is" : "they are"));
}

/// Sends the waiting ranks the ranks that they wait for. The first waiting rank asks the others' call boards and fails
/// the communicator if calls differ.
void RendezvousServer::check_exchange(uint32_t number) {
  if (failed_ || state_ != State::Running || number != exchange_ || contributions_ == 0) return;
  if (!divergence_.empty()) return fail(Code::Mismatch, divergence_);
  send_missing(missing_ranks());
  check_timer_ = after(kLookSeconds, &RendezvousServer::check_exchange);
}

/// Calls a member function after `seconds`, with the number of the current exchange.
EventLoop::Id RendezvousServer::after(double seconds, void (RendezvousServer::*then)(uint32_t)) {
  return control_.loop().at(Deadline::in(seconds), [weak = weak_from_this(), then, number = exchange_] {
    if (const auto self = weak.lock()) (self.get()->*then)(number);
  });
}

void RendezvousServer::send_missing(const std::vector<Rank>& ranks) {
  const size_t first = first_contributor();
  for (size_t r = first; r < joined_.size(); ++r) {
    if (joined_[r].contribution) send(*joined_[r].channel, pack(Missing{exchange_, r == first, ranks}));
  }
}

/// A rank has left, and other ranks wait for it in an exchange.
void RendezvousServer::left_before_exchange(Rank rank) {
  record_divergence(rank,
                    fmt::format("destroy() as call {}", joined_[static_cast<size_t>(rank)].leave_notice.calls + 1));
}

/// `rank` is in another call than the waiting ranks. Their boards may show an earlier difference: the rendezvous server
/// reports its own finding only if no rank has reported one by the next check.
void RendezvousServer::record_divergence(Rank rank, const std::string& call) {
  if (failed_ || !divergence_.empty()) return;
  const size_t first = first_contributor();
  divergence_ = fmt::format("rank {} called {} where rank {} called {}", rank, call, first,
                            describe_call(*joined_[first].contribution));
  send_missing({rank});
  control_.loop().cancel(check_timer_);
  check_timer_ = after(kLookSeconds, &RendezvousServer::check_exchange);
}

size_t RendezvousServer::first_contributor() const {
  const auto giver =
      std::find_if(joined_.begin(), joined_.end(), [](const RankState& s) { return s.contribution.has_value(); });
  return static_cast<size_t>(giver - joined_.begin());
}

std::vector<Rank> RendezvousServer::missing_ranks() const {
  std::vector<Rank> missing;
  for (size_t r = 0; r < joined_.size(); ++r) {
    if (!joined_[r].contribution) missing.push_back(static_cast<Rank>(r));
  }
  return missing;
}

}  // namespace tutti::control
