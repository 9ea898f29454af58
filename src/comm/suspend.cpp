// Suspending a communicator, and resuming it: all ranks do either at the same place among their calls.
//
// Suspend takes two exchanges. In the first the ranks agree that nothing needs what is to be freed: no window, no
// registered buffer, no graph, and no message that was sent and is still to be received. In the second they say that
// what they had enqueued has ended, so that no rank frees what another one still reads. Resume takes one before it
// makes anything: then all that was is gone everywhere, and nobody meets an old link of a peer.
#include "comm/suspend.hpp"

#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "base/fields.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "comm/rank_report.hpp"
#include "comm/submit.hpp"
#include "comm/ticket.hpp"
#include "control/transfer_counts.hpp"

#ifdef __GLIBC__  // defined by the headers above
#include <malloc.h>
#endif

namespace tutti::comm {
namespace {

constexpr CallSpec kSuspend{.suspends = true};
constexpr CallSpec kResume{.suspends = true, .count = 1};

/// What a rank gives to the first exchange.
struct SuspendPage {
  std::string why_not;  ///< empty: it may be suspended
  uint64_t sent = 0;    ///< its sends to all ranks, as a checksum …
  uint64_t received = 0;
  static void fields(auto& m, auto& v) { v.words(m.why_not, kMaxItem), v.number(m.sent, m.received); }
};

/// Where the checksums differ: what each rank has sent and received. Of many peers none: that would be n² of them.
struct TransfersPage {
  static constexpr size_t kMaxPeers = 512;
  std::vector<control::PeerTransfers> peers;
  static void fields(auto& m, auto& v) { v.list(m.peers, kMaxPeers); }
};

uint64_t checksum(Rank from, Rank to, uint64_t messages) {
  if (messages == 0) return 0;
  return Hash().add(static_cast<uint64_t>(from)).add(static_cast<uint64_t>(to)).add(messages).value();
}

template <class Numbers>
std::string list(const Numbers& numbered) {
  std::vector<uint64_t> numbers;
  for (const auto& entry : numbered) numbers.push_back(entry.first);
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// Within a group what it holds would be run on what is freed, or before it.
void check_no_group(const Communicator& comm, const char* call) {
  if (!in_group()) return;
  throw_error(Code::InvalidUsage, "rank {}: {} cannot be called within a group: tuttiGroupEnd comes first", comm.rank(),
              call);
}

/// Engines' buffers came from the allocator, which would keep what it has got from the system.
void give_back_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

template <class Body>
void with_ticket(Communicator& comm, Body&& body) {
  const TicketGuard guard(comm, comm.take_ticket());
  try {
    body();
  } catch (const Error&) {
    comm.note_heard();
    throw;
  }
}

}  // namespace

void suspend(const std::shared_ptr<Communicator>& comm) {
  check_no_group(*comm, "tuttiCommSuspend");
  with_ticket(*comm, [&] { comm->suspend(); });
}

void resume(const std::shared_ptr<Communicator>& comm) {
  check_no_group(*comm, "tuttiCommResume");
  with_ticket(*comm, [&] { comm->resume(); });
}

/// What of this rank needs what is to be freed; "": nothing.
std::string Communicator::why_not_suspended() const {
  if (windows_ != nullptr && !windows_->live.empty()) {
    return fmt::format("it has {}, made by call {}: tuttiWindowDeregister comes first",
                       counted(windows_->live.size(), "window"), list(windows_->live));
  }
  if (!registrations_.empty()) {
    return fmt::format("it has registered {}, number {}: tuttiCommDeregister comes first",
                       counted(registrations_.size(), "buffer"), list(registrations_));
  }
  for (const auto& on : on_) {
    if (!on->refused().empty() || !on->backend().repeats()) continue;
    return fmt::format("calls on memory of {} were captured in graphs, which would run on what is freed", on->name());
  }
  return "";
}

/// The first message that was sent and not received, or the other way round. All ranks call it.
std::string Communicator::unmatched_transfer(Deadline deadline) {
  std::map<Rank, control::PeerTransfers> mine;
  for (const auto& [transfer, number] : transfer_counts_) {
    const auto [peer, sends] = transfer;
    mine[peer].peer = peer;
    (sends ? mine[peer].sent : mine[peer].received) = number;
  }
  TransfersPage page;
  for (const auto& [peer, counts] : mine) {
    if (mine.size() <= TransfersPage::kMaxPeers) page.peers.push_back(counts);
  }
  std::map<std::pair<Rank, Rank>, std::pair<uint64_t, uint64_t>> all;  // by sender and receiver: sent, received
  Rank rank = 0;
  for (const std::string& text : exchange(pack_fields(page), deadline)) {
    for (const control::PeerTransfers& counts : read_of<TransfersPage>(rank, text).peers) {
      all[{rank, counts.peer}].first = counts.sent;
      all[{counts.peer, rank}].second = counts.received;
    }
    ++rank;
  }
  for (const auto& [ends, counts] : all) {
    if (counts.first == counts.second) continue;
    return fmt::format("rank {} has sent {} to rank {}, which has received {}: all that is sent is received first",
                       ends.first, counted(counts.first, "message"), ends.second, counts.second);
  }
  return "some ranks have sent messages that others have not received: all that is sent is received first";
}

/// Why some rank cannot be suspended, alike on all ranks; "": all can.
std::string Communicator::agree_to_suspend(Deadline deadline) {
  SuspendPage mine{.why_not = why_not_suspended()};
  for (const auto& [transfer, number] : transfer_counts_) {
    const auto [peer, sends] = transfer;
    sends ? mine.sent ^= checksum(rank(), peer, number) : mine.received ^= checksum(peer, rank(), number);
  }
  uint64_t sent = 0, received = 0;
  Rank from = 0;
  std::string why_not;
  for (const std::string& text : exchange(pack_fields(mine), deadline)) {
    const auto page = read_of<SuspendPage>(from, text);
    if (why_not.empty() && !page.why_not.empty()) why_not = fmt::format("rank {} cannot: {}", from, page.why_not);
    sent ^= page.sent;
    received ^= page.received;
    ++from;
  }
  if (!why_not.empty() || sent == received) return why_not;
  diagnostics_.begin(calls_, kSuspend);
  return unmatched_transfer(deadline);
}

/// What was enqueued on backends whose calls no thread of the program runs; and all ranks have done so.
void Communicator::end_enqueued_calls() {
  for (const auto& on : on_) {
    if (on->is_driven() || !on->refused().empty()) continue;
    ended_ += on->backend().finish(timeouts_.of_calls());
  }
  diagnostics_.begin(calls_, kSuspend);
  exchange({}, Deadline::in(timeouts_.of_calls()));
}

void Communicator::suspend() {
  const Deadline deadline = begin_control_call(kSuspend);
  const std::string why_not = in_control_call([&] { return agree_to_suspend(deadline); });
  if (!why_not.empty()) {
    leave_control_call();
    throw_error(Code::InvalidUsage, "rank {}: {}: {}", rank(), describe(kSuspend), why_not);
  }
  in_control_call([&] { end_enqueued_calls(); });
  state_.store(State::Suspended, std::memory_order_relaxed);
  free_data_path();
  Fabric::close(std::move(fabric_));
  give_back_freed_memory();
  shown_.emplace(*endpoint_, title(), log_, "suspended");
  leave_control_call();
}

/// Where calls ran before, they run again, or the communicator fails: that its calls are refused from now on would be
/// found too late.
void Communicator::check_served_as_before() const {
  for (size_t i = 0; i < processors_.size(); ++i) {
    if (processors_[i] == exec::kNoProcessor || on_[i + 1]->refused().empty()) continue;
    throw_error(Code::Unsupported, "calls on memory of {} cannot be made any more: {}", on_[i + 1]->name(),
                on_[i + 1]->refused());
  }
}

void Communicator::resume() {
  if (has_failed() || has_left()) unusable_status(describe(kResume)).throw_if_bad();
  if (!is_suspended()) {
    throw_error(Code::InvalidUsage, "rank {}: {}: the communicator is not suspended", rank(), describe(kResume));
  }
  const Deadline deadline = enter_control_call(kResume);
  in_control_call([&] {
    exchange({}, deadline);
    try {
      make_data_path(nullptr);
      agree();
      check_served_as_before();
    } catch (...) {
      while (!on_.empty()) on_.pop_back();  // backends that have not agreed can end nothing
      throw;
    }
  });
  state_.store(State::Live, std::memory_order_relaxed);
  leave_control_call();
}

}  // namespace tutti::comm
