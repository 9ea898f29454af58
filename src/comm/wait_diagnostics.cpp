// Diagnoses waits: for whom a call waits, what that rank does meanwhile, and when the wait is an error.
#include "base/format.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/stream.hpp"

namespace tutti::comm {
namespace {

constexpr double kInFlight = 1.0;  // seconds in which what an awaited rank has sent arrives

const char* waits_for(exec::Await await) {
  switch (await) {
    case exec::Await::Message:
      return "a message";
    case exec::Await::Credit:
      return "room on the link";
    case exec::Await::Staging:
      return "staged data to be read";
    case exec::Await::Exchange:
      return "its part in an exchange";
    default:
      return "progress";
  }
}

/// "rank 3 (a message) at lane 0, step 2 of 4, round 1 of 8"
std::string awaited(const exec::Stall& stall) {
  const bool is_signal = stall.await == exec::Await::Signal || stall.await == exec::Await::FarSignal;
  if (stall.what != nullptr || is_signal)
    return fmt::format("{} of rank {}", stall.what != nullptr ? stall.what : "a signal", stall.peer);
  const std::string replica =
      stall.replicas > 1 ? fmt::format("replica {} of {}, ", stall.replica, stall.replicas) : std::string();
  return fmt::format("rank {} ({}) at {}lane {}, step {}{}, round {} of {}", stall.peer, waits_for(stall.await),
                     replica, stall.lane, stall.step, stall.steps > 0 ? fmt::format(" of {}", stall.steps) : "",
                     stall.round, stall.rounds);
}

}  // namespace

Status CallDiagnostics::cut_off_by_failure(const exec::Stall& stall) {
  Status status = failed();
  status.text += fmt::format("; the call waited for {}", awaited(stall));
  return status;
}

void CallDiagnostics::processor_failed(const std::string& why, const exec::Stall& stall) {
  const std::string waited = stall.await == exec::Await::Nothing ? "" : ", which waited for " + awaited(stall);
  (void)fail(Code::SystemError, fmt::format("rank {}: {} in {}{}", endpoint_.rank(), why, describe_call(), waited));
}

Status CallDiagnostics::stalled(const exec::Stall& stall) {
  if (endpoint_.failed().load(std::memory_order_acquire) != 0) return failed();
  if (stall.has_left) return left_without_signal(stall.peer);
  if (stall.peer != kNoRank) {
    check_board(stall);
    if (board_) {
      if (const auto wrong = mismatch(stall.peer, *board_)) return fail(Code::Mismatch, *wrong);
    }
  }
  if (const auto early = any_left_early()) return fail(Code::Mismatch, *early);
  for (const exec::PeerAwait& on : stall.all) {
    if (stall.seconds < kInFlight) break;
    if (Stream::holds_back(endpoint_.name(), on.peer)) return fail(Code::InvalidUsage, shared_stream(on.peer));
  }
  if (const auto deadlock = stalls_.check(stall, stalled_call())) {
    endpoint_.failing()(Code::Mismatch, deadlock->text, deadlock->tickets);
    return failed();
  }
  if (stall.seconds < timeouts_.of_calls()) return {};
  return fail(Code::Timeout, describe_timeout(stall));
}

std::string CallDiagnostics::shared_stream(Rank peer) const {
  return fmt::format(
      "rank {} and rank {} use one stream, which runs one call after the other: rank {}'s call cannot begin before "
      "rank {}'s {} ends, which waits for it. Give each rank a stream of its own, or make both calls in one group",
      endpoint_.rank(), peer, peer, endpoint_.rank(), describe_call());
}

std::string CallDiagnostics::describe_activity(Rank peer) const {
  const auto board = ask_specs(peer, {call_}).front();
  if (!board) return fmt::format("; rank {} does not answer", peer);
  return fmt::format("; rank {} is alive, {}", peer,
                     board->last ? "its last call: " + describe(*board->last) : "without having made a call");
}

std::string CallDiagnostics::describe_timeout(const exec::Stall& stall) const {
  if (stall.peer == kNoRank) return fmt::format("no progress for {:.1f} s", stall.seconds);
  std::string text = fmt::format("rank {} waited {:.1f} s for {}{}", endpoint_.rank(), stall.seconds, awaited(stall),
                                 other_ ? " in " + describe_call() : "");
  const std::string waits = stalls_.follow_awaited();
  if (!board_) {
    text += fmt::format("; rank {} does not answer", stall.peer);
  } else if (call_ != 0 && board_->begun < call_) {
    text += fmt::format("; rank {} is alive and has not entered call {}", stall.peer, call_);
    if (board_->last) text += fmt::format(" (its last call: {})", describe(*board_->last));
  } else {
    const std::string last = board_->last ? describe(*board_->last) : "no call";
    text += fmt::format("; rank {} is alive{}", stall.peer, waits.empty() ? ", in " + last : "");
  }
  if (!waits.empty()) text += "; " + waits;
  return text +
         fmt::format(" (communicator: {}). Raise {} if it may take longer.", title(), timeouts_.setting_of_calls());
}

}  // namespace tutti::comm
