// How the blocks of a call begin and end it, and what they tell the host, whatever they run between.
#pragma once

#include <cstdint>

#include "exec/cuda/block.hpp"
#include "exec/cuda/device.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {

/// What a block waits for.
struct Waits {
  Await await = Await::Nothing;
  Rank peer = kNoRank;
  uint32_t link_lane = 0, step = 0, replica = 0, lane = 0;
  uint64_t round = 0, rounds = 0;
};

/// One block's view. Its leader alone calls what does not say otherwise. `Words`: how words that others see are stored;
/// of a call with one block the end of the kernel orders what it has stored.
template <class Words>
class CallFrame {
 public:
  TUTTI_DEVICE explicit CallFrame(const gpu::CallHead& head) : head_(head) {}

  // Kept in no register, since folds need them: the counters change when the call ends.
  TUTTI_DEVICE uint64_t number() const { return SystemMemory::load(&head_.counters->calls) + 1; }
  /// 0: it has none.
  TUTTI_DEVICE uint64_t collective() const {
    return head_.numbered != 0 ? SystemMemory::load(&head_.counters->collectives) + 1 : 0;
  }
  /// Has the host ended the call?
  TUTTI_DEVICE bool is_aborted() const { return SystemMemory::load(&head_.record->abort) != 0; }

  /// Sets the call's tag. False if the call must not run. All that is loaded lies in this GPU's memory, and is on its
  /// way at the same time: the host's words are not looked at before something waits.
  TUTTI_DEVICE bool enter(uint64_t& tag) const {
    const uint64_t calls = SystemMemory::load(&head_.counters->calls);
    const uint64_t collectives = SystemMemory::load(&head_.counters->collectives);
    const uint64_t closed = SystemMemory::load(&head_.counters->closed);
    const uint64_t before = ptx::exchange_relaxed<ptx::Scope::Device>(&head_.counters->owner, head_.launch);
    if (closed != 0) return false;
    if (before != 0 && before != head_.launch) {
      report({.kind = FaultKind::TwoAtOnce, .call = head_.launch, .other = before});
      return false;
    }
    if (ptx::block_index() == 0) ptx::store_relaxed(&head_.record->started, calls + 1);
    tag = (head_.salt + (head_.numbered != 0 ? collectives + 1 : 0)) & link::kTagMask;
    return true;
  }

  /// Tells the host for what the block waits. Of several threads that do, the host reads any one's wait.
  TUTTI_DEVICE void tell(const Waits& waits) const {
    gpu::BlockWait& told = head_.record->waits[ptx::block_index()];
    const auto pair = [](uint64_t high, uint32_t low) { return high << 32 | low; };
    ptx::store_relaxed(&told.call, number());
    ptx::store_relaxed(&told.await_peer, pair(static_cast<uint64_t>(waits.await), static_cast<uint32_t>(waits.peer)));
    ptx::store_relaxed(&told.link_lane_step, pair(waits.link_lane, waits.step));
    ptx::store_relaxed(&told.replica_lane, pair(waits.replica, waits.lane));
    ptx::store_relaxed(&told.round, waits.round);
    ptx::store_relaxed(&told.rounds, waits.rounds);
    Words::store_release(&told.turn, SystemMemory::load(&told.turn) + 1);
  }

  /// The first of all reports is kept. Any thread.
  TUTTI_DEVICE void report(const Fault& what) const {
    if (!SystemMemory::claim(&head_.counters->faulted)) return;
    gpu::store_report<SystemMemory>(head_.record->fault, what);
    Words::store_release(&head_.record->abort, 1);  // other blocks end too
  }

  /// Have all other blocks ended? Then nobody looks at what this call used.
  TUTTI_DEVICE bool is_last() const {
    if (ptx::grid_size() == 1) return true;
    return ptx::fetch_add<ptx::Scope::Device>(&head_.counters->left, uint64_t{1}) + 1 == ptx::grid_size();
  }

  /// By the last block: prepares the next call.
  TUTTI_DEVICE void end() const {
    const uint64_t ended = number(), collectives = collective();
    // Another launch may look at these words: one that is not ordered with this, and reports it.
    const auto set = [](uint64_t& word, uint64_t value) { ptx::store_relaxed<ptx::Scope::Device>(&word, value); };
    if (head_.numbered != 0) {
      set(head_.counters->collectives, collectives);
      ptx::store_relaxed(&head_.record->collectives, collectives);
    }
    set(head_.counters->left, 0);
    set(head_.counters->owner, 0);
    set(head_.counters->calls, ended);
#if defined(__CUDACC__)
    if (head_.counted != 0) ptx::store_relaxed(&head_.record->counted, head_.counted);
    Words::store_release(&head_.record->ended, ended);
#else  // what its stream did before a kernel, copies among it, has ended: ThreadSanitizer hears of that here
    if (head_.counted != 0) __atomic_store_n(&head_.record->counted, head_.counted, __ATOMIC_RELEASE);
    __atomic_store_n(&head_.record->ended, ended, __ATOMIC_RELEASE);
#endif
  }

 private:
  const gpu::CallHead& head_;
};

}  // namespace tutti::exec::cuda
