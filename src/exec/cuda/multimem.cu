// The kernels that fold and multicast through a switch with multicast memory (NVLink SHARP), one for each of its
// operations. If everyone folds a part and sends it to all (FoldToAll), every rank gets the fold of all ranks' buffers:
//
//   copy a window of the input to a slot of this rank's memory   ── signal ──►   wait until all ranks have
//   load this rank's part of the window from all GPUs, folded by the switch; store it to all GPUs
//                                                                ── signal ──►   wait until all ranks have
//   copy the window from the slot to the output
//
// Where everyone folds a block of its own (Fold), a window of every block is copied in, and what the switch folds goes
// to the output; where everyone sends its block to all (ToAll), the input is stored to all GPUs, and a window of every
// block is copied out. The next window is copied in before the second wait. A block waits for the same item of the
// other ranks alone, never for another block.
//
// Bytes over a GPU's links, each way at most, with n ranks and blocks of S bytes:
//
//                through a switch   without
//   FoldToAll    (1 + 1/n) · S      2(n−1)/n · S
//   Fold         n · S              (n−1) · S      (S come in)
//   ToAll        n · S              (n−1) · S      (S go out)
//
// Only who adds differs from the plan, and in which order, so the reproducible mode does without it for floats. Source:
// Klenk, Jiang, Thorson & Dennison, An In-Network Architecture for Accelerating Shared-Memory Multiprocessor
// Collectives, ISCA 2020.
#include "exec/cuda/block.hpp"
#include "exec/cuda/call_frame.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/fold.hpp"
#include "exec/cuda/multimem_access.hpp"
#include "exec/cuda/multimem_call.hpp"

namespace tutti::exec::cuda {
namespace {

/// The work of one block. All threads call its functions, but where they say otherwise.
template <class Operation>
class Block {
 public:
  TUTTI_DEVICE Block(const MultimemCall& call, const BlockGroup& group)
      : call_(call), frame_(call.head), group_(group) {}

  TUTTI_DEVICE void run() {
    uint32_t goes = 0;
    uint64_t tag = 0;
    if (group_.leader()) goes = frame_.enter(tag) ? 1 : 0;
    if (group_.broadcast(goes) != 0) {
      tag_ = group_.broadcast(short_tag(tag));
      for (uint32_t item = ptx::block_index(); item < call_.layout.items; item += ptx::grid_size()) {
        if (!run_item(item)) break;
      }
    }
    group_.sync();
    if (group_.leader() && frame_.is_last()) frame_.end();
  }

 private:
  TUTTI_DEVICE bool run_item(uint32_t item) {
    const uint32_t rounds = call_.layout.rounds_of(item);
    const uint64_t sent = ptx::load_relaxed<ptx::Scope::Device>(&call_.sent[item]);
    TUTTI_HD_ROLLED
    for (MultimemSteps steps(rounds); !steps.ended(); steps.advance()) {
      if (!run_step(item, steps, sent, rounds)) return false;
    }
    if (group_.leader()) ptx::store_relaxed<ptx::Scope::Device>(&call_.sent[item], sent + uint64_t{2} * rounds);
    return true;
  }

  TUTTI_DEVICE bool run_step(uint32_t item, const MultimemSteps& now, uint64_t sent, uint64_t rounds) {
    using Kind = MultimemSteps::Kind;
    switch (now.kind()) {
      case Kind::CopyIn:
        copy_in(item, now.round());
        return true;
      case Kind::SignalIn:
      case Kind::SignalFold:
        signal(item, sent + now.count());
        return true;
      case Kind::Fold:
        fold(item, now.round());
        return true;
      case Kind::CopyOut:
        copy_out(item, now.round());
        return true;
      default: {
        const uint32_t step = now.kind() == Kind::AwaitIn ? call_.fold_step : call_.gather_step;
        return await(item, sent + now.count(), {.step = step, .replica = item, .round = now.round(), .rounds = rounds});
      }
    }
  }

  // ---- windows

  TUTTI_DEVICE uint64_t slot_of(uint32_t item, uint64_t round) const {
    return kSignalBytes + call_.layout.slot_of(item, round);
  }

  TUTTI_DEVICE void copy_in(uint32_t item, uint64_t round) const {
    const uint64_t begin = call_.layout.begin_of(item, round), bytes = call_.layout.bytes_of(begin);
    unsigned char* const slot = call_.own + slot_of(item, round);
    TUTTI_HD_ROLLED
    for (uint32_t block = 0; block < call_.layout.copies_in(); ++block) {
      copy(slot + block * call_.layout.place(), call_.in + block * call_.layout.bytes + begin, bytes);
    }
  }
  TUTTI_DEVICE void copy_out(uint32_t item, uint64_t round) const {
    const uint64_t begin = call_.layout.begin_of(item, round), bytes = call_.layout.bytes_of(begin);
    const unsigned char* const slot = call_.own + slot_of(item, round);
    TUTTI_HD_ROLLED
    for (uint32_t block = 0; block < call_.layout.copies_out(); ++block) {
      copy(call_.out + block * call_.layout.bytes + begin, slot + block * call_.layout.place(), bytes);
    }
  }
  TUTTI_DEVICE void copy(unsigned char* to, const unsigned char* from, uint64_t bytes) const {
    switch (call_.unit) {
      case 1:
        return copy_block<uint8_t>(to, nullptr, from, bytes);
      case 2:
        return copy_block<uint16_t>(to, nullptr, from, bytes);
      case 4:
        return copy_block<uint32_t>(to, nullptr, from, bytes);
      default:
        return copy_block<uint64_t>(to, nullptr, from, bytes);
    }
  }

  /// This rank's part.
  TUTTI_DEVICE void fold(uint32_t item, uint64_t round) const {
    unsigned char* const slot = call_.all + slot_of(item, round);
    const uint64_t begin = call_.layout.begin_of(item, round), bytes = call_.layout.bytes_of(begin);
    const auto part = call_.layout.part_of(bytes);
    const auto folded = [&](uint32_t pack) { return Operation::load(slot + place(pack)); };
    const auto to_all = [&](uint32_t pack, const ptx::Pack& value) { store_to_all(slot + place(pack), value); };
    const auto buffer_at = [&](uint32_t pack) { return begin + place(pack - part.begin); };
    const auto left = [&](uint32_t pack) { return bytes - place(pack - part.begin); };
    switch (call_.layout.form) {
      case MultimemForm::FoldToAll:
        return move(part, folded, to_all);
      case MultimemForm::Fold:
        return move(part, folded, [&](uint32_t pack, const ptx::Pack& value) {
          ptx::store_anywhere(call_.out + buffer_at(pack), value, left(pack));
        });
      case MultimemForm::ToAll:
        return move(
            part, [&](uint32_t pack) { return ptx::load_anywhere(call_.in + buffer_at(pack), left(pack)); }, to_all);
    }
  }
  /// Several loads are on their way at a time: each takes as long as a way to all GPUs and back.
  template <class Load, class Store>
  TUTTI_DEVICE static void move(const MultimemLayout::Packs& part, const Load& load, const Store& store) {
    constexpr uint32_t kAtATime = 4;
    uint32_t at = part.begin + ptx::thread_index();
    for (; at + (kAtATime - 1) * ptx::block_size() < part.end; at += kAtATime * ptx::block_size()) {
      ptx::Pack packs[kAtATime];
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kAtATime; ++i) packs[i] = load(at + i * ptx::block_size());
      TUTTI_HD_UNROLLED
      for (uint32_t i = 0; i < kAtATime; ++i) store(at + i * ptx::block_size(), packs[i]);
    }
    TUTTI_HD_ROLLED
    for (; at < part.end; at += ptx::block_size()) store(at, load(at));
  }
  TUTTI_DEVICE static uint64_t place(uint32_t pack) { return pack * sizeof(ptx::Pack); }

  // ---- signals

  TUTTI_DEVICE uint64_t signal_of(uint32_t item, uint32_t rank) const {
    return (uint64_t{item} * kMaxMultimemRanks + rank) * sizeof(Signal);
  }
  /// Tags have more bits.
  TUTTI_DEVICE static uint32_t short_tag(uint64_t tag) { return static_cast<uint32_t>(tag ^ tag >> 32); }

  /// Tells all ranks that this one has sent `count` signals, once all threads have done what it stands for.
  TUTTI_DEVICE void signal(uint32_t item, uint64_t count) const {
    group_.sync();
    if (!group_.leader()) return;
    fence_aliases();
    auto* const word = reinterpret_cast<Signal*>(call_.all + signal_of(item, call_.layout.rank));
    release_to_all(word, make_signal(tag_, count));
    fence_aliases();  // this rank's own block waits for it too
  }

  /// Waits until all ranks have sent `count` signals. False: the call ends here.
  TUTTI_DEVICE bool await(uint32_t item, uint64_t count, Waits waits) {
    waits.await = Await::Message;
    if (ptx::thread_index() < call_.layout.ranks) fence_aliases();  // signals come by multicast, and are read without
    bool all = true;
    TUTTI_HD_ROLLED
    for (uint32_t peer = ptx::thread_index(); peer < call_.layout.ranks; peer += ptx::block_size()) {
      waits.peer = static_cast<Rank>(peer);
      all = await_peer(*reinterpret_cast<const Signal*>(call_.own + signal_of(item, peer)), count, waits) && all;
    }
    if (ptx::thread_index() < call_.layout.ranks)
      fence_aliases();  // on the way from the signals to what all threads do next
    return !ptx::sync_block_or(!all);
  }

  /// One thread.
  TUTTI_DEVICE bool await_peer(const Signal& signal, uint64_t count, const Waits& waits) {
    TUTTI_HD_ROLLED
    for (uint32_t turn = 1;; ++turn) {
      const Heard heard = hear(ptx::load_acquire(&signal), tag_, count);
      if (heard == Heard::Yes) return true;
      if (heard == Heard::OtherCall) {
        frame_.report({.kind = FaultKind::OtherCall, .peer = waits.peer, .step = waits.step, .call = frame_.number()});
        return false;
      }
      if (turn % gpu::kTurnsPerPoll == 0) frame_.tell(waits);
      if (!group_.keep_waiting(turn)) return false;
    }
  }

  const MultimemCall& call_;
  const CallFrame<SystemMemory> frame_;
  const BlockGroup& group_;
  uint32_t tag_ = 0;
};

}  // namespace

#define TUTTI_MULTIMEM_KERNEL(name, T, kOp, shape, operation)              \
  TUTTI_KERNEL(tutti_multimem_##name, MultimemCall, gpu::kMaxThreads, 2) { \
    TUTTI_SHARED(BlockShared, shared);                                     \
    const BlockGroup group(shared, &arguments.head.record->abort);         \
    Block<Multimem_##name>(arguments, group).run();                        \
  }
TUTTI_MULTIMEM_OPERATIONS(TUTTI_MULTIMEM_KERNEL)
#undef TUTTI_MULTIMEM_KERNEL

}  // namespace tutti::exec::cuda
