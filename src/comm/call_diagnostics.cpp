#include "comm/call_diagnostics.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "control/describe.hpp"
#include "exec/wait.hpp"

namespace tutti::comm {
namespace {

constexpr double kBoardWait = 2.0;   // seconds to wait for a peer's board after a wrong message
constexpr double kReasonWait = 2.0;  // … and for the reason why a peer's call failed or a link broke

/// True when `peer` left without the counterpart of one of our transfers with it.
bool left_without(const std::vector<NumberedCall>& group, Rank peer, const control::Left& left) {
  return std::any_of(group.begin(), group.end(), [&](const NumberedCall& ours) {
    const CallSpec& spec = ours.call.spec;
    return spec.root == peer && ours.number > (spec.sends ? left.received_from_us : left.sent_to_us);
  });
}

}  // namespace

/// "all_reduce(count=8, f32, sum), call 41", "send(count=4, f32, to rank 1)", "a group of 3 transfers beginning with …"
std::string CallDiagnostics::describe_call() const {
  if (call_ != 0) return fmt::format("{}, call {}", describe(spec_), call_);
  if (group_ == nullptr || group_->empty()) return other_ ? other_() : "a call";
  const std::string first = describe(group_->front().call.spec);
  return group_->size() == 1 ? first : fmt::format("a group of {} transfers beginning with {}", group_->size(), first);
}

/// "rank 3: all_reduce(count=8, f32, sum), call 41 (ring)"
std::string CallDiagnostics::prefix() const {
  const bool has_group = group_ != nullptr && !group_->empty();
  if (call_ == 0 && !has_group && !other_) return fmt::format("rank {}", endpoint_.rank());
  const std::string by = call_ == 0 || *algorithm_ == '\0' ? "" : fmt::format(" ({})", algorithm_);
  return fmt::format("rank {}: {}{}", endpoint_.rank(), describe_call(), by);
}

/// This rank's own call with `peer`.
const CallSpec& CallDiagnostics::ours(Rank peer, bool sends) const {
  if (call_ != 0 || group_ == nullptr || group_->empty()) return spec_;
  for (const NumberedCall& transfer : *group_) {
    if (transfer.call.spec.root == peer && transfer.call.spec.sends == sends) return transfer.call.spec;
  }
  return group_->front().call.spec;
}

/// The key of the counterpart of our call on the peer's board.
uint64_t CallDiagnostics::key(Rank peer, bool we_send) const {
  if (call_ != 0 || group_ == nullptr) return call_;
  for (const NumberedCall& transfer : *group_) {
    if (transfer.call.spec.root != peer || transfer.call.spec.sends != we_send) continue;
    return transfer_key(!we_send, endpoint_.rank(), transfer.number);
  }
  return 0;
}

std::string CallDiagnostics::compare(Rank peer, uint64_t call, const CallSpec& mine, const CallSpec& theirs) const {
  if (mine.is_vector && mine.kinds() == theirs.kinds()) {
    if (auto text = different_counts(peer, call, mine)) return *text;
  }
  const std::string number = call != 0 ? fmt::format(" as call {}", call) : "";
  return fmt::format("rank {} called {}{} where rank {} called {}", peer, describe(theirs), number, endpoint_.rank(),
                     describe(mine));
}

Status CallDiagnostics::fail(Code code, const std::string& reason) {
  endpoint_.fail(code, reason);
  return failed();
}

Status CallDiagnostics::link_failed(Code code, const std::string& describe_call) {
  const Deadline deadline = Deadline::in(code == Code::PeerFailed ? kReasonWait : 0);
  do {
    if (endpoint_.failed().load(std::memory_order_acquire) != 0) return failed();
    if (const auto early = any_left_early()) return fail(Code::Mismatch, *early);
    exec::nap(1e-3);
  } while (!deadline.passed());
  if (const auto other = any_left_after_another_call(); other && code == Code::PeerFailed) {
    return fail(Code::Mismatch, *other);
  }
  return fail(code, describe_call);
}

/// How `peer` left without the counterpart of our call (of our sends to it, or receives), if it did.
std::optional<std::string> CallDiagnostics::left_early(Rank peer, bool we_send) const {
  const auto left = endpoint_.left(peer);
  if (!left) return std::nullopt;
  if (call_ != 0) {
    const uint64_t last = left->calls + 1;
    // Where not all calls were counted, the peer's board says what it has under our number: mismatch() finds it.
    if (last > call_ || !own_board_.counts_all()) return std::nullopt;
    return compare(peer, last, own_board_.collective(last).value_or(spec_), {.leaves = true});
  }
  if (group_ == nullptr || !left_without(*group_, peer, *left)) return std::nullopt;
  return fmt::format("rank {} left after sending rank {} {} and receiving {} from it where rank {} called {}", peer,
                     endpoint_.rank(), counted(left->sent_to_us, "message"), left->received_from_us, endpoint_.rank(),
                     describe(ours(peer, we_send)));
}

/// The same for any peer: ranks may wait for each other because a third rank is not in the call.
std::optional<std::string> CallDiagnostics::any_left_early() const {
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    for (const bool we_send : {true, false}) {
      if (auto early = left_early(peer, we_send)) return early;
    }
  }
  return std::nullopt;
}

/// A rank that left after another call with this number: it may have left no message for ours.
std::optional<std::string> CallDiagnostics::any_left_after_another_call() const {
  if (call_ == 0 || !own_board_.counts_all()) return std::nullopt;
  for (Rank peer = 0; peer < endpoint_.ranks(); ++peer) {
    const auto left = endpoint_.left(peer);
    if (!left || left->calls != call_ || left->last == describe(spec_)) continue;
    return fmt::format("rank {} called {} as call {} where rank {} called {}", peer, left->last, call_,
                       endpoint_.rank(), describe(spec_));
  }
  return std::nullopt;
}

Status CallDiagnostics::failed() {
  const auto first = endpoint_.failure();
  if (!first) return {Code::InternalError, prefix() + ": the communicator failed without a reason"};
  const std::string whole = control::said_by(endpoint_.rank(), first->second), mine = prefix();
  // The reason names this rank, and may be of this very call.
  return {first->first, whole.starts_with(mine + ":") ? whole : mine + whole.substr(whole.find(':'))};
}

/// The peer's replies under these keys, in their order.
std::vector<std::optional<std::string>> CallDiagnostics::ask_now(Rank peer, const std::vector<uint64_t>& keys) const {
  const Deadline deadline = Deadline::in(kBoardWait);
  std::vector<std::future<std::optional<std::string>>> replies;
  for (const uint64_t key : keys) replies.push_back(endpoint_.ask_board(peer, key, deadline));
  std::vector<std::optional<std::string>> answers;
  for (auto& reply : replies) {
    const bool came = reply.wait_until(deadline.at()) == std::future_status::ready;
    answers.push_back(came ? reply.get() : std::nullopt);
  }
  return answers;
}

/// The peer's entries under these keys, in their order.
std::vector<std::optional<BoardAnswer>> CallDiagnostics::ask_specs(Rank peer, const std::vector<uint64_t>& keys) const {
  std::vector<std::optional<BoardAnswer>> answers;
  for (const auto& bytes : ask_now(peer, keys)) answers.push_back(bytes ? CallBoard::parse(*bytes) : std::nullopt);
  return answers;
}

/// The first difference between the peer's collectives and ours: a rank may have passed a wrong call without noticing.
std::optional<std::string> CallDiagnostics::first_difference(Rank peer) const {
  const uint64_t oldest = call_ < CallBoard::kEntries ? 1 : call_ - CallBoard::kEntries + 1;
  std::vector<uint64_t> calls;
  for (uint64_t call = oldest; call <= call_; ++call) calls.push_back(call);
  const auto theirs = ask_specs(peer, calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto mine = own_board_.collective(calls[i]);
    if (!mine || !theirs[i] || !theirs[i]->spec || *theirs[i]->spec == *mine) continue;
    if (theirs[i]->repeats || own_board_.repeats()) return std::nullopt;  // calls of one number need not be the same
    return compare(peer, calls[i], *mine, *theirs[i]->spec);
  }
  return std::nullopt;
}

/// The first difference, if the last collective of a peer outside our call is not one of ours.
std::optional<std::string> CallDiagnostics::last_difference(Rank peer, const BoardAnswer& board) const {
  if (!board.last || board.last->collective == Collective::SendRecv || board.begun == call_) return std::nullopt;
  if (board.repeats || own_board_.repeats()) return std::nullopt;
  // No rank passes a call that waits for all: a rank that is further is in other calls, even if its board no longer has
  // our number.
  if (board.begun > call_) return compare(peer, board.begun, spec_, *board.last);
  const auto mine = own_board_.collective(board.begun);
  if (!mine || *mine == *board.last) return std::nullopt;
  if (auto first = first_difference(peer)) return first;
  return compare(peer, board.begun, *mine, *board.last);
}

/// The first transfer of our group whose counterpart on the peer's board has another count or type.
std::optional<std::string> CallDiagnostics::first_wrong_transfer(Rank peer) const {
  std::vector<const NumberedCall*> shared;
  std::vector<uint64_t> keys;
  for (const NumberedCall& transfer : *group_) {
    if (transfer.call.spec.root != peer) continue;
    shared.push_back(&transfer);
    keys.push_back(transfer_key(!transfer.call.spec.sends, endpoint_.rank(), transfer.number));
  }
  const auto theirs = ask_specs(peer, keys);
  for (size_t i = 0; i < shared.size(); ++i) {
    const CallSpec& mine = shared[i]->call.spec;
    if (!theirs[i] || !theirs[i]->spec) continue;
    const CallSpec& other = *theirs[i]->spec;
    if (other.count != mine.count || other.type != mine.type) return compare(peer, 0, mine, other);
  }
  return std::nullopt;
}

/// A message of another call has arrived.
Status CallDiagnostics::other_call(const exec::Fault& fault) {
  const auto apart = call_ != 0 ? first_difference(fault.peer) : first_wrong_transfer(fault.peer);
  if (apart) return fail(Code::Mismatch, *apart);
  if (call_ != 0 && spec_.is_vector) {
    if (const auto lengths = different_block(fault.peer)) return fail(Code::Mismatch, *lengths);
    return fail(Code::Mismatch, fmt::format("rank {} sent rank {} a block of another length than the one that rank {} "
                                            "expected in {} as call {}",
                                            fault.peer, endpoint_.rank(), endpoint_.rank(), describe(spec_), call_));
  }
  const auto board = ask_specs(fault.peer, {key(fault.peer, false)}).front();
  const std::string theirs =
      board && board->last ? describe(*board->last) : "a call that it no longer has on its board";
  const std::string number = call_ != 0 ? fmt::format(" as call {}", call_) : "";
  return fail(
      Code::Mismatch,
      fmt::format("rank {} received a message of another call from rank {} (lane {}, step {}): rank {} called {} "
                  "where rank {} called {}{}",
                  endpoint_.rank(), fault.peer, fault.lane, fault.step, fault.peer, theirs, endpoint_.rank(),
                  describe(ours(fault.peer, false)), number));
}

/// The peer's call has failed: its memory says so before the control plane has sent the reason.
Status CallDiagnostics::zcopy_withdrawn(Rank peer) {
  return link_failed(
      Code::PeerFailed,
      fmt::format("{} ended its call with an error, for a reason that did not arrive, before rank {} had "
                  "read all of its zero-copy data",
                  endpoint_.describe(peer), endpoint_.rank()));
}

Status CallDiagnostics::fault(const exec::Fault& fault) {
  if (fault.kind == exec::FaultKind::OtherCall) return other_call(fault);
  if (fault.kind == exec::FaultKind::BadCounter) {
    return fail(Code::ProtocolError,
                fmt::format("rank {} acknowledged messages that rank {} never sent it", fault.peer, endpoint_.rank()));
  }
  if (fault.kind == exec::FaultKind::Revoked) return zcopy_withdrawn(fault.peer);
  if (fault.kind == exec::FaultKind::Unreadable) {
    const bool gone = fault.error == ESRCH || fault.error == ECONNRESET;
    return link_failed(gone ? Code::PeerFailed : Code::SystemError,
                       fmt::format("rank {} cannot read the buffer of {}: {}; TUTTI_CMA=off avoids such reads",
                                   endpoint_.rank(), endpoint_.describe(fault.peer), std::strerror(fault.error)));
  }
  const char* describe_call =
      fault.kind == exec::FaultKind::BadLength ? "a message of the wrong length" : "an invalid descriptor";
  return fail(
      Code::ProtocolError,
      fmt::format("rank {} received {} from rank {} (lane {}, step {}; {} bytes where {} are due)", endpoint_.rank(),
                  describe_call, fault.peer, fault.lane, fault.step, fault.got.length, fault.expected_bytes));
}

/// The difference, if the peer's board has another call under our number.
std::optional<std::string> CallDiagnostics::mismatch(Rank peer, const BoardAnswer& board) const {
  if (call_ == 0) return std::nullopt;  // a wrong transfer shows in its messages
  if (!board.spec || *board.spec == spec_) return std::nullopt;
  if (board.repeats || own_board_.repeats()) return std::nullopt;  // their backend compares the calls' tags
  if (auto first = first_difference(peer)) return first;
  return compare(peer, call_, spec_, *board.spec);
}

/// Fails the communicator, and returns true, if one of the ranks is in other calls.
bool CallDiagnostics::compare_calls(const std::vector<Rank>& ranks) {
  const Deadline deadline = Deadline::in(kBoardWait);
  std::vector<std::future<std::optional<std::string>>> replies;
  for (const Rank peer : ranks) replies.push_back(endpoint_.ask_board(peer, call_, deadline));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (replies[i].wait_until(deadline.at()) != std::future_status::ready) continue;
    const auto bytes = replies[i].get();
    const auto board = bytes ? CallBoard::parse(*bytes) : std::nullopt;
    if (!board) continue;
    auto wrong = mismatch(ranks[i], *board);
    if (!wrong) wrong = last_difference(ranks[i], *board);
    if (!wrong) continue;
    endpoint_.fail(Code::Mismatch, *wrong);
    return true;
  }
  return false;
}

void CallDiagnostics::missing(const std::vector<Rank>& ranks, bool compare) {
  if (compare && compare_calls(ranks)) return;
  if (const auto deadlock = stalls_.check(ranks, links_, stalled_call())) {
    endpoint_.failing()(Code::Mismatch, deadlock->text, deadlock->tickets);
  }
}

void CallDiagnostics::check_board(const exec::Stall& stall) {
  if (asked_ != stall.peer) {
    asked_ = stall.peer;
    board_.reset();
    answer_ = {};
  }
  if (answer_.valid() && answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    if (const auto bytes = answer_.get()) board_ = CallBoard::parse(*bytes);
  }
  if (!answer_.valid()) {
    answer_ =
        endpoint_.ask_board(stall.peer, key(stall.peer, stall.await != exec::Await::Message), Deadline::in(kBoardWait));
  }
}

}  // namespace tutti::comm
