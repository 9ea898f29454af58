// The kernels that run lanes, one for each element type: a block runs its share of a call's lanes with the interpreter
// of src/exec/, turn by turn, until they are done, the host ends the call, or a message is wrong.
#include "exec/cuda/block.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/fold.hpp"
#include "exec/cuda/lanes.hpp"

namespace tutti::exec::cuda {
namespace {

using System = SystemMemory;

enum class Verdict : uint32_t { Goes, Stops };

/// The work of one block. Its leader alone calls what does not say otherwise. Of a short call it is the only block, and
/// the end of the kernel orders what it has stored.
template <class T, KernelKind kKind>
class Block {
 public:
  using Wire = BlockWire<kKind>;
  using Run = Interpreter<BlockGroup, Wire, BlockReduce<T, kKind>, NoRemoteAccess>;

  TUTTI_DEVICE Block(const LanesCall& call, const BlockGroup& group) : call_(call), group_(group) {}

  /// All threads.
  TUTTI_DEVICE void run() {
    uint32_t goes = 0;
    if (group_.leader()) goes = enter() ? 1 : 0;
    if (group_.broadcast(goes) != 0) run_lanes();
    group_.sync();
    if (group_.leader()) leave();
  }

 private:
  TUTTI_DEVICE RankState& rank(uint32_t item) const { return call_.ranks[item]; }
  TUTTI_DEVICE LaneState& lane(uint32_t item) const { return call_.states[item]; }

  // Kept in no register, since the fold needs them: the counters change when the call ends.
  TUTTI_DEVICE uint64_t number() const { return System::load(&call_.counters->calls) + 1; }
  /// 0: it has none.
  TUTTI_DEVICE uint64_t collective() const {
    return call_.numbered != 0 ? System::load(&call_.counters->collectives) + 1 : 0;
  }

  /// False if the call must not run.
  TUTTI_DEVICE bool enter() {
    if (System::load(&call_.record->abort) != 0) return false;
    const uint64_t before = gpu::exchange_relaxed<gpu::Scope::Device>(&call_.counters->owner, call_.launch);
    if (before != 0 && before != call_.launch) {
      report(kTwoAtOnce, {}, before);
      return false;
    }
    if (gpu::block_index() == 0) gpu::store_relaxed(&call_.record->started, number());
    TUTTI_HD_ROLLED
    for (uint32_t item = gpu::block_index(); item < call_.items; item += gpu::grid_size()) bind(item);
    return true;
  }

  TUTTI_DEVICE void bind(uint32_t item) const {
    RankState& state = rank(item);
    const uint64_t first = call_.window_bytes * (item / call_.lanes);
    state.bases[0] = moved(call_.in, first);
    state.bases[1] = moved(call_.out, first);
    state.tag = (call_.salt + collective()) & link::kTagMask;
    state.faulted = 0;
    state.arithmetic.scale = call_.scaled == 1 ? call_.scale : nullptr;
    if (call_.scaled == 2) state.arithmetic.scale = *reinterpret_cast<const void* const*>(call_.scale);
  }

  /// All threads.
  TUTTI_DEVICE void run_lanes() {
    // In one register, since the folds need all others: turns without progress << 2 | what this turn has seen.
    constexpr uint32_t kMoved = 1, kMore = 2;
    TUTTI_HD_ROLLED
    for (uint32_t turn = 0;;) {
      turn &= ~(kMoved | kMore);
      TUTTI_HD_ROLLED
      for (uint32_t item = gpu::block_index(); item < call_.items; item += gpu::grid_size()) {
        const Outcome outcome = Run::try_step(group_, rank(item), lane(item));
        if (outcome == Outcome::Fault) return fault(item);
        if (outcome == Outcome::Progress) turn |= kMoved;
        if (outcome != Outcome::LaneDone) turn |= kMore;
      }
      if ((turn & kMore) == 0) return;
      turn = (turn & kMoved) != 0 ? 0 : turn + 4;
      if (turn == 0) continue;
      gpu::poll_pause();
      if (turn / 4 % kTurnsToALook == 0 && look() == Verdict::Stops) return;
    }
  }

  /// All threads: what does the host say?
  TUTTI_DEVICE Verdict look() {
    Verdict verdict = Verdict::Goes;
    if (group_.leader()) {
      tell_wait();
      if (System::load(&call_.record->abort) != 0) verdict = Verdict::Stops;
    }
    return static_cast<Verdict>(group_.broadcast(static_cast<uint32_t>(verdict)));
  }

  /// Tells the host for what the block's first waiting lane waits.
  TUTTI_DEVICE void tell_wait() const {
    TUTTI_HD_ROLLED
    for (uint32_t item = gpu::block_index(); item < call_.items; item += gpu::grid_size()) {
      const LaneState& waits = lane(item);
      if (waits.round >= rank(item).rounds) continue;
      BlockWait& told = call_.record->waits[gpu::block_index()];
      const auto pair = [](uint64_t high, uint32_t low) { return high << 32 | low; };
      gpu::store_relaxed(&told.await_peer, pair(static_cast<uint64_t>(waits.await), static_cast<uint32_t>(waits.peer)));
      gpu::store_relaxed(&told.link_lane_step, pair(waits.link_lane, waits.next != nullptr ? waits.next->step : 0));
      gpu::store_relaxed(&told.replica_lane, pair(item / call_.lanes, waits.lane));
      gpu::store_relaxed(&told.round, waits.round);
      gpu::store_relaxed(&told.rounds, rank(item).rounds);
      Wire::Words::store_release(&told.turn, System::load(&told.turn) + 1);
      return;
    }
  }

  /// All threads.
  TUTTI_DEVICE void fault(uint32_t item) const {
    if (group_.leader()) report(kFaultOfALink, rank(item).fault, 0);
  }

  /// The first of all reports is kept.
  TUTTI_DEVICE void report(uint64_t kind, const Fault& what, uint64_t other) const {
    if (!System::claim(&call_.counters->faulted)) return;
    call_.record->what = what;
    call_.record->call = kind == kTwoAtOnce ? call_.launch : number();
    call_.record->other = other;
    System::store_release(&call_.record->fault, kind);
    Wire::Words::store_release(&call_.record->abort, 1);  // other blocks end too
  }

  /// The last block prepares the next call: all others have ended, and nobody looks at this call's lanes any more.
  TUTTI_DEVICE void leave() const {
    if constexpr (kKind != KernelKind::Short) {
      const uint64_t left = gpu::fetch_add<gpu::Scope::Device>(&call_.counters->left, uint64_t{1}) + 1;
      if (left != gpu::grid_size()) return;
    }
    TUTTI_HD_ROLLED
    for (uint32_t item = 0; item < call_.items; ++item) {
      LaneState& done = lane(item);
      done.progress = done.round = 0;
      done.arrived = 0;
      done.next = nullptr;
    }
    const uint64_t ended = number();
    if (call_.numbered != 0) call_.counters->collectives = collective();
    call_.counters->left = 0;
    call_.counters->owner = 0;
    call_.counters->calls = ended;
    gpu::store_relaxed(&call_.record->collectives, call_.counters->collectives);
    Wire::Words::store_release(&call_.record->ended, ended);
  }

  const LanesCall& call_;
  const BlockGroup& group_;
};

template <class T, KernelKind kKind>
TUTTI_DEVICE void run_lanes(const LanesCall& call) {
  TUTTI_SHARED(uint32_t, word);
  const BlockGroup group(word, &call.record->abort);
  Block<T, kKind>(call, group).run();
}

}  // namespace

// Two blocks of the largest size fit a multiprocessor: so many threads hide the time that loads take.
#define TUTTI_LANES(name, T)                                                                                  \
  TUTTI_KERNEL(tutti_lanes_##name, LanesCall, kMaxThreads, 2) { run_lanes<T, KernelKind::Slots>(arguments); } \
  TUTTI_KERNEL(tutti_lines_##name, LanesCall, kMaxThreads, 2) { run_lanes<T, KernelKind::Lines>(arguments); } \
  TUTTI_KERNEL(tutti_short_##name, LanesCall, kMaxThreads, 2) { run_lanes<T, KernelKind::Short>(arguments); }
TUTTI_LANES(i8, Plain<int8_t>)
TUTTI_LANES(u8, Plain<uint8_t>)
TUTTI_LANES(i16, Plain<int16_t>)
TUTTI_LANES(u16, Plain<uint16_t>)
TUTTI_LANES(i32, Plain<int32_t>)
TUTTI_LANES(u32, Plain<uint32_t>)
TUTTI_LANES(i64, Plain<int64_t>)
TUTTI_LANES(u64, Plain<uint64_t>)
TUTTI_LANES(f16, F16)
TUTTI_LANES(bf16, Bf16)
TUTTI_LANES(f32, Plain<float>)
TUTTI_LANES(f64, Plain<double>)
TUTTI_LANES(f8e4m3, F8E4M3)
TUTTI_LANES(f8e5m2, F8E5M2)
#undef TUTTI_LANES

}  // namespace tutti::exec::cuda
