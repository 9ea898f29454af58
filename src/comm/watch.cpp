#include "comm/watch.hpp"

#include <chrono>

#include "base/env.hpp"
#include "base/format.hpp"

namespace tutti::comm {
namespace {

constexpr double kBoardWait = 2.0;  // seconds for a peer's board when a message was wrong

const char* waits_for(exec::Await await) {
  switch (await) {
    case exec::Await::Message:
      return "a message";
    case exec::Await::Credit:
      return "room on the link";
    case exec::Await::Staging:
      return "staged data to be read";
    default:
      return "progress";
  }
}

}  // namespace

void Watch::begin(uint64_t call, const Prepared& prepared) {
  call_ = call;
  prepared_ = &prepared;
  group_ = nullptr;
  asked_ = kNoRank;
  board_.reset();
}

void Watch::begin(const std::vector<NumberedCall>& group) {
  call_ = 0;
  prepared_ = nullptr;
  group_ = &group;
  asked_ = kNoRank;
  board_.reset();
}

/// "rank 3: all_reduce(count=8, f32, sum), call 41 (ring)"
std::string Watch::here() const {
  if (prepared_ != nullptr) {
    return fmt::format("rank {}: {}, call {} ({})", endpoint_.rank(), describe(prepared_->spec), call_,
                       prepared_->algorithm);
  }
  if (group_ == nullptr || group_->empty()) return fmt::format("rank {}", endpoint_.rank());
  const std::string first = describe(group_->front().call->spec);
  if (group_->size() == 1) return fmt::format("rank {}: {}", endpoint_.rank(), first);
  return fmt::format("rank {}: group of {} transfers beginning with {}", endpoint_.rank(), group_->size(), first);
}

/// This rank's own call that concerns `peer`.
const CallSpec& Watch::ours(Rank peer, bool sends) const {
  if (prepared_ != nullptr) return prepared_->spec;
  for (const NumberedCall& transfer : *group_) {
    if (transfer.call->spec.root == peer && transfer.call->spec.sends == sends) return transfer.call->spec;
  }
  return group_->front().call->spec;
}

/// Under what key the peer's board has the counterpart of our call.
uint64_t Watch::key(Rank peer, bool we_send) const {
  if (prepared_ != nullptr) return call_;
  for (const NumberedCall& transfer : *group_) {
    if (transfer.call->spec.root != peer || transfer.call->spec.sends != we_send) continue;
    return transfer_key(!we_send, endpoint_.rank(), transfer.number);
  }
  return 0;
}

std::string Watch::compare(Rank peer, const CallSpec& mine, const CallSpec& theirs) const {
  const std::string number = call_ != 0 ? fmt::format(" as call {}", call_) : "";
  return fmt::format("rank {} called {}{} where rank {} called {}", peer, describe(theirs), number, endpoint_.rank(),
                     describe(mine));
}

Status Watch::fail(Code code, const std::string& reason) {
  endpoint_.fail(code, reason);
  return failed();
}

Status Watch::failed() {
  const auto first = endpoint_.failure();
  if (!first) return {Code::InternalError, here() + ": failed without a reason"};
  return {first->first, fmt::format("{}: {}", here(), first->second)};
}

std::optional<BoardAnswer> Watch::ask_now(Rank peer, uint64_t key) const {
  const Deadline deadline = Deadline::in(kBoardWait);
  auto answer = endpoint_.ask_board(peer, key, deadline);
  if (answer.wait_until(deadline.at()) != std::future_status::ready) return std::nullopt;
  const auto bytes = answer.get();
  return bytes ? Board::parse(*bytes) : std::nullopt;
}

Status Watch::fault(const exec::Fault& fault) {
  const std::string where = fmt::format("lane {}, step {}", fault.lane, fault.step);
  if (fault.kind == exec::FaultKind::OtherCall) {
    const auto board = ask_now(fault.peer, key(fault.peer, false));
    const CallSpec& mine = ours(fault.peer, false);
    if (board && board->spec && *board->spec != mine) {
      const bool transfer = mine.collective == Collective::SendRecv;
      if (!transfer || board->spec->count != mine.count || board->spec->type != mine.type) {
        return fail(Code::Mismatch, compare(fault.peer, mine, *board->spec));
      }
    }
    const std::string theirs = board && board->last ? describe(*board->last) : "a call that is not known any more";
    return fail(
        Code::Mismatch,
        fmt::format("rank {} received a message of another call from rank {} ({}): rank {} called {} where rank "
                    "{} called {}{}",
                    endpoint_.rank(), fault.peer, where, fault.peer, theirs, endpoint_.rank(), describe(mine),
                    call_ != 0 ? fmt::format(" as call {}", call_) : ""));
  }
  const char* what = fault.kind == exec::FaultKind::BadLength ? "a message of the wrong length" : "a broken descriptor";
  return fail(Code::ProtocolError,
              fmt::format("rank {} received {} from rank {} ({}; {} bytes where {} are due)", endpoint_.rank(), what,
                          fault.peer, where, fault.got.length, fault.expected_bytes));
}

/// What is wrong if the peer's board shows another call where ours stands, or shows that it will never come.
std::optional<std::string> Watch::mismatch(Rank peer, const BoardAnswer& board) const {
  if (prepared_ == nullptr) return std::nullopt;  // the counterpart of a transfer shows in its messages
  if (board.spec && *board.spec != prepared_->spec) return compare(peer, prepared_->spec, *board.spec);
  return std::nullopt;
}

void Watch::look_at_board(const exec::Stall& stall) {
  if (asked_ != stall.peer) {
    asked_ = stall.peer;
    board_.reset();
    answer_ = {};
  }
  if (answer_.valid() && answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    if (const auto bytes = answer_.get()) board_ = Board::parse(*bytes);
  }
  if (!answer_.valid()) {
    answer_ =
        endpoint_.ask_board(stall.peer, key(stall.peer, stall.await != exec::Await::Message), Deadline::in(kBoardWait));
  }
}

Status Watch::stalled(const exec::Stall& stall) {
  if (endpoint_.failed().load(std::memory_order_acquire) != 0) return failed();
  if (stall.peer != kNoRank) {
    look_at_board(stall);
    if (board_) {
      if (const auto wrong = mismatch(stall.peer, *board_)) return fail(Code::Mismatch, *wrong);
    }
    const auto left = endpoint_.left(stall.peer);
    if (left && (call_ == 0 || *left < call_)) {
      return fail(Code::Mismatch,
                  fmt::format("rank {} left after {} collective calls where rank {} called {}{}", stall.peer, *left,
                              endpoint_.rank(), describe(ours(stall.peer, stall.await != exec::Await::Message)),
                              call_ != 0 ? fmt::format(" as call {}", call_) : ""));
    }
  }
  if (stall.seconds < env().timeout) return {};
  return fail(Code::Timeout, late(stall));
}

std::string Watch::late(const exec::Stall& stall) const {
  if (stall.peer == kNoRank) return fmt::format("no progress for {:.1f} s", stall.seconds);
  std::string text = fmt::format("rank {} waited {:.1f} s for rank {} ({}) at lane {}, step {} of {}, round {} of {}",
                                 endpoint_.rank(), stall.seconds, stall.peer, waits_for(stall.await), stall.lane,
                                 stall.step, stall.steps, stall.round, stall.rounds);
  if (!board_) {
    text += fmt::format("; rank {} does not answer", stall.peer);
  } else if (call_ != 0 && board_->begun < call_) {
    text += fmt::format("; rank {} is alive and has not entered call {}", stall.peer, call_);
    if (board_->last) text += fmt::format(" (its last call: {})", describe(*board_->last));
  } else {
    text += fmt::format("; rank {} is alive, in {}", stall.peer, board_->last ? describe(*board_->last) : "no call");
  }
  return text + ". Raise TUTTI_TIMEOUT if it may take longer.";
}

}  // namespace tutti::comm
