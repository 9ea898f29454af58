// The kernels that run lanes, one for each element type: a block runs its share of a call's lanes with the interpreter
// of src/exec/, turn by turn, until they are done, the host ends the call, or a message is wrong.
#include "exec/cuda/block.hpp"
#include "exec/cuda/call_frame.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/fold.hpp"
#include "exec/cuda/places.hpp"
#include "exec/cuda/stamps.hpp"
#include "exec/cuda/transfers.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::cuda {
namespace {

enum class Verdict : uint32_t { Goes, Stops };

/// The work of one block. Its leader alone calls what does not say otherwise. Of a short call it is the only block.
/// `kBatch`: another call of the same launch may follow, where the end of a kernel orders nothing.
template <class T, gpu::KernelKind kKind, bool kBatch>
class Block {
 public:
  using Wire = BlockWire<kKind>;
  using Run = Interpreter<BlockGroup, Wire, BlockReduce<T, kKind>, BlockRemote<kKind>>;

  TUTTI_DEVICE Block(const gpu::LanesCall& call, const BlockGroup& group)
      : call_(call), places_(call), frame_(call.head), group_(group) {}

  /// All threads.
  TUTTI_DEVICE void run() {
    Stamps::begin();
    bool goes = false;
    if (group_.leader()) goes = enter();
    places_.load();
    goes = ptx::sync_block_or(goes);
    if (kKind == gpu::KernelKind::Slots && goes && group_.leader()) bind_regions();
    Stamps::after(Phase::Enter);
    if (goes) {
      if (kKind == gpu::KernelKind::Slots && call_.transfers.message != 0) bind_transfers();
      run_lanes();
      group_.sync();
      places_.store();
      TUTTI_HD_ROLLED
      for (uint32_t place = 0; group_.leader() && places_.has(place); ++place) places_.reset(place);
    }
    group_.sync();  // who sees that the call has ended may use all of it again
    if (group_.leader()) leave();
    Stamps::after(Phase::Leave);
    Stamps::print(call_.head.record, call_.head.launch);
  }

 private:
  TUTTI_DEVICE RankState& rank(uint32_t place) const { return places_.item(place).rank; }
  TUTTI_DEVICE LaneState& lane(uint32_t place) const { return places_.item(place).lane; }
  TUTTI_DEVICE uint32_t replica(uint32_t place) const {
    return call_.lanes == 1 ? places_.number(place) : places_.number(place) / call_.lanes;
  }

  /// False if the call must not run. Sets what other threads do not copy (Places::kSetWords).
  TUTTI_DEVICE bool enter() const {
    uint64_t tag = 0;
    if (!frame_.enter(tag)) return false;
    TUTTI_HD_ROLLED
    for (uint32_t place = 0; places_.has(place); ++place) {
      RankState& state = rank(place);
      const uint64_t first = call_.window_bytes == 0 ? 0 : call_.window_bytes * replica(place);
      lane(place).bases[0] = state.bases[0] = moved(call_.in, first);
      lane(place).bases[1] = state.bases[1] = moved(call_.out, first);
      state.tag = tag;
      state.faulted = 0;
      state.arithmetic.scale = call_.scaled == 1 ? call_.scale : nullptr;
      if (call_.scaled == 2) state.arithmetic.scale = *reinterpret_cast<const void* const*>(call_.scale);
    }
    return true;
  }

  TUTTI_DEVICE void bind_regions() const {
    TUTTI_HD_ROLLED
    for (uint32_t place = 0; places_.has(place); ++place) {
      const RankState& state = rank(place);
      if (state.regions == nullptr) return;
      state.regions[0] = call_.in_region;
      state.regions[1] = call_.out_region;
    }
  }

  /// All threads.
  TUTTI_DEVICE void bind_transfers() const {
    TUTTI_HD_ROLLED
    for (uint32_t place = ptx::thread_index(); places_.has(place); place += ptx::block_size()) {
      TransferLane(call_.transfers, rank(place).last).bind(places_.number(place) % call_.lanes, replica(place));
    }
    group_.sync();
  }

  /// Does the lane have one round, in which all messages come and go in lines? Then its instructions run one after the
  /// other: each thread waits for itself, and of the lane's state only the next instruction is kept.
  TUTTI_DEVICE bool is_straight() const {
    if constexpr (kKind == gpu::KernelKind::Slots) return false;
    return kKind == gpu::KernelKind::Short || call_.straight;
  }

  /// All threads. What the interpreter's begin_step() is to other lanes.
  TUTTI_DEVICE Outcome begin_straight(uint32_t place, typename Run::Step& step) const {
    RankState& state = rank(place);
    LaneState& its = lane(place);
    const Instruction* const op = its.next;
    if (op == state.last.ops + state.last.lanes->end) return Outcome::LaneDone;
    Outcome outcome = Outcome::Progress;
    TUTTI_HD_ROLLED
    for (uint32_t i = op->outs.begin + ptx::thread_index(); i < op->outs.end; i += ptx::block_size()) {
      const link::OutLink& out = state.out[state.last.outs[i].link];
      const Outcome room =
          await(state, *op, Await::Credit, out, [&] { return Run::room_for(state, state.last.outs[i]); });
      if (room != Outcome::Progress) outcome = room;
    }
    TUTTI_HD_ROLLED
    for (uint32_t i = ptx::thread_index(); i < op->arrivals.end - op->arrivals.begin; i += ptx::block_size()) {
      const link::InLink& in = state.in[state.last.arrivals[op->arrivals.begin + i]];
      const Outcome come =
          await(state, *op, Await::Message, in, [&] { return Run::message_ready(state, its, *op, i); });
      if (come != Outcome::Progress) outcome = come;
    }
    if (ptx::sync_block_or(outcome != Outcome::Progress)) return state.faulted != 0 ? Outcome::Fault : Outcome::GaveUp;
    step = Run::step_of(state, its);
    return outcome;
  }

  /// All threads. Likewise for end_step().
  TUTTI_DEVICE Outcome end_straight(uint32_t place) const {
    RankState& state = rank(place);
    LaneState& its = lane(place);
    const typename Run::Step step = Run::step_of(state, its);
    if (step.op->lines && group_.any_gave_up()) return Outcome::GaveUp;
    if (step.op->push_copies) Run::copy_to_readers(group_, state, its, *step.op, step.slot);
    group_.sync();
    if (group_.polls()) Run::end_messages(group_, state, its, *step.op);
    if (group_.leader()) its.next = step.op + 1;
    group_.sync();
    return Outcome::Progress;
  }

  /// One thread: until it is so, or another thread has seen a wrong message: what this one waits for may never come.
  /// Tells the host now and then for what it waits.
  template <class Link, class Ready>
  TUTTI_DEVICE Outcome await(const RankState& state, const Instruction& op, Await what, const Link& link,
                             Ready&& ready) const {
    TUTTI_HD_ROLLED
    for (uint32_t turn = 1;; ++turn) {
      const Outcome outcome = ready();
      if (outcome != Outcome::Waiting) return outcome;
      if (ptx::load_relaxed<ptx::Scope::Device>(&state.faulted) != 0) return Outcome::GaveUp;
      ptx::poll_pause();
      if (turn % gpu::kTurnsPerPoll != 0) continue;
      frame_.tell({.await = what, .peer = link.peer, .link_lane = link.link_lane, .step = op.step, .rounds = 1});
      if (frame_.is_aborted()) return Outcome::GaveUp;
    }
  }

  /// All threads.
  TUTTI_DEVICE void run_lanes() {
    // In one register, since the folds need all others: turns without progress << 2 | what this turn has seen.
    constexpr uint32_t kMoved = 1, kMore = 2;
    TUTTI_HD_ROLLED
    for (uint32_t turn = 0;;) {
      turn &= ~(kMoved | kMore);
      TUTTI_HD_ROLLED
      for (uint32_t place = 0; places_.has(place); ++place) {
        const Outcome outcome = step(place);
        if (outcome == Outcome::Fault) return fault(place);
        if (outcome == Outcome::GaveUp) return;
        if (outcome == Outcome::Progress) turn |= kMoved;
        if (outcome != Outcome::LaneDone) turn |= kMore;
      }
      if ((turn & kMore) == 0) return;
      turn = (turn & kMoved) != 0 ? 0 : turn + 4;
      if (turn == 0) continue;
      ptx::poll_pause();
      if (turn / 4 % gpu::kTurnsPerPoll == 0 && poll() == Verdict::Stops) return;
    }
  }

  /// All threads. While bytes are moved only numbers are kept: folds need the registers.
  TUTTI_DEVICE Outcome step(uint32_t& place) {
    typename Run::Step step;
    const Outcome outcome =
        is_straight() ? begin_straight(place, step) : Run::begin_step(group_, rank(place), lane(place), step);
    Stamps::after(Phase::Wait);
    if (step.op == nullptr) return outcome;
    if (Run::moves_segments(*step.op)) {
      TUTTI_HD_ROLLED
      for (uint32_t s = step.op->segments.begin; s < lane(place).next->segments.end; ++s) {
        Run::move_segment(group_, rank(place), lane(place), Run::step_of(rank(place), lane(place)), s);
        ptx::forget(place);
      }
    }
    Stamps::after(Phase::Move);
    const Outcome ended = is_straight()
                              ? end_straight(place)
                              : Run::end_step(group_, rank(place), lane(place), Run::step_of(rank(place), lane(place)));
    Stamps::after(Phase::Publish);
    return ended;
  }

  /// All threads: what does the host say?
  TUTTI_DEVICE Verdict poll() {
    Verdict verdict = Verdict::Goes;
    if (group_.leader()) {
      report_wait();
      if (frame_.is_aborted()) verdict = Verdict::Stops;
    }
    return static_cast<Verdict>(group_.broadcast(static_cast<uint32_t>(verdict)));
  }

  /// Tells the host for what the block's first waiting lane waits.
  TUTTI_DEVICE void report_wait() const {
    TUTTI_HD_ROLLED
    for (uint32_t place = 0; places_.has(place); ++place) {
      const LaneState& waits = lane(place);
      const bool drains = rank(place).drains && waits.await != Await::Nothing;
      if (waits.round >= rank(place).rounds && !drains) continue;
      frame_.tell({.await = waits.await,
                   .peer = waits.peer,
                   .link_lane = waits.link_lane,
                   .step = waits.next != nullptr ? waits.next->step : 0,
                   .replica = replica(place),
                   .lane = waits.lane,
                   .round = waits.round,
                   .rounds = rank(place).rounds});
      return;
    }
  }

  /// All threads.
  TUTTI_DEVICE void fault(uint32_t place) const {
    if (!group_.leader()) return;
    Fault& what = rank(place).fault;
    what.call = frame_.number();
    frame_.report(what);
  }

  /// The last block prepares the next call: nobody looks at this call's lanes any more.
  TUTTI_DEVICE void leave() const {
    if constexpr (kBatch) ptx::fence<ptx::Scope::Device>();  // what this block has done, before it says so …
    if (kKind != gpu::KernelKind::Short && !frame_.is_last()) return;
    if constexpr (kBatch) ptx::fence<ptx::Scope::Device>();  // … and what all have done, before the next call begins
    TUTTI_HD_ROLLED
    for (uint32_t item = 0; call_.progress != nullptr && item < call_.items; ++item) call_.progress[item].progress = 0;
    if constexpr (kBatch) ptx::fence<ptx::Scope::Device>();
    frame_.end();
  }

  const gpu::LanesCall& call_;
  const Places places_;
  const CallFrame<typename Wire::Words> frame_;
  const BlockGroup& group_;
};

template <class T, gpu::KernelKind kKind>
TUTTI_DEVICE void run_lanes(const gpu::LanesCall& call) {
  if constexpr (Stamps::kBuilds<T>) {
    TUTTI_SHARED(BlockShared, shared);
    const BlockGroup group(shared, &call.head.record->abort);
    Block<T, kKind, false>(call, group).run();
  } else {
    ptx::trap();
  }
}

/// Calls in turn. All blocks take part in each, and none begins one before all have ended the one before: they wait for
/// the counter of ended calls, which does not change while a block has yet to leave.
template <class T, gpu::KernelKind kKind>
TUTTI_DEVICE void run_batch(const gpu::LanesBatch& batch) {
  if constexpr (Stamps::kBuilds<T>) {
    TUTTI_SHARED(BlockShared, shared);
    const uint64_t* const calls = &batch.calls[0].head.counters->calls;
    const uint64_t before = SystemMemory::load(calls);
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < batch.count; ++i) {
      if (BlockGroup::leader()) {
        TUTTI_HD_ROLLED
        while (ptx::load_acquire<ptx::Scope::Device>(calls) - before < i) ptx::poll_pause();
      }
      BlockGroup::sync();
      const BlockGroup group(shared, &batch.calls[i].head.record->abort);
      Block<T, kKind, true>(batch.calls[i], group).run();
    }
  } else {
    ptx::trap();
  }
}

}  // namespace

// Two blocks of the largest size fit a multiprocessor: so many threads hide the time that loads take.
#define TUTTI_LANES_OF(text, T)                                                                                        \
  TUTTI_KERNEL(tutti_lanes_##text, gpu::LanesCall, gpu::kMaxThreads, 2) {                                              \
    run_lanes<T, gpu::KernelKind::Slots>(arguments);                                                                   \
  }                                                                                                                    \
  TUTTI_KERNEL(tutti_ll_##text, gpu::LanesCall, gpu::kMaxThreads, 2) { run_lanes<T, gpu::KernelKind::Ll>(arguments); } \
  TUTTI_KERNEL(tutti_short_##text, gpu::LanesCall, gpu::kMaxThreads, 2) {                                              \
    run_lanes<T, gpu::KernelKind::Short>(arguments);                                                                   \
  }
#define TUTTI_BATCH_OF(text, T)                                               \
  TUTTI_KERNEL(tutti_batch_ll_##text, gpu::LanesBatch, gpu::kMaxThreads, 2) { \
    run_batch<T, gpu::KernelKind::Ll>(arguments);                             \
  }
// The build compiles the kernels of integers and those of floats beside each other.
#ifdef TUTTI_WITHOUT_INTEGERS
#define TUTTI_LANES_Signed(text, T)
#define TUTTI_LANES_Unsigned(text, T)
#else
#define TUTTI_LANES_Signed TUTTI_LANES_OF
#define TUTTI_LANES_Unsigned TUTTI_LANES_OF
#endif
#ifdef TUTTI_WITHOUT_FLOATS
#define TUTTI_LANES_Float(text, T)
#else
#define TUTTI_LANES_Float TUTTI_LANES_OF
#endif
#define TUTTI_LANES(name, text, bytes, kind, c, T, ...) TUTTI_LANES_##kind(text, T)
TUTTI_TYPES(TUTTI_LANES)
// Of the types that groups of calls usually have (gpu::kBatchTypes); bits of all types of these sizes are moved as
// integers. They run calls with messages in slots and in lines; those that read in place are long, and gain nothing.
#ifndef TUTTI_WITHOUT_INTEGERS
TUTTI_BATCH_OF(u16, Plain<uint16_t>)
TUTTI_BATCH_OF(u32, Plain<uint32_t>)
#endif
#ifndef TUTTI_WITHOUT_FLOATS
TUTTI_BATCH_OF(bf16, Bf16)
TUTTI_BATCH_OF(f32, Plain<float>)
#endif

}  // namespace tutti::exec::cuda
