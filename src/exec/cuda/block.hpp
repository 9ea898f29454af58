// The interpreter's policies for a GPU: a block of threads runs a lane.
#pragma once

#include <cstdint>

#include "exec/cuda/block_operands.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/packs.hpp"
#include "exec/gpu/lanes.hpp"
#include "exec/interpreter.hpp"
#include "exec/no_remote_access.hpp"
#include "link/ll.hpp"

namespace tutti::exec::cuda {

/// What a block's threads have in common.
struct BlockShared {
  uint32_t word;     ///< of broadcast()
  uint32_t gave_up;  ///< not 0: some thread has
  BlockOperands operands;
};
// What a kernel has without asking for more. Two such blocks fit a multiprocessor with 100 KiB.
static_assert(sizeof(BlockShared) + gpu::kSharedBytes <= 48 << 10);

class BlockGroup {
 public:
  /// `abort`: not 0 when the host has ended the call.
  TUTTI_DEVICE BlockGroup(BlockShared& shared, const uint64_t* abort) : shared_(shared), abort_(abort) {
    if (leader()) shared.gave_up = 0;  // a barrier comes before all waiting
  }
  TUTTI_DEVICE static uint32_t thread() { return ptx::thread_index(); }
  TUTTI_DEVICE static uint32_t threads() { return ptx::block_size(); }
  TUTTI_DEVICE const unsigned char** operands(const LaneState&, const Instruction&) const {
    return shared_.operands.at;
  }
  TUTTI_DEVICE static bool leader() { return ptx::thread_index() == 0; }
  TUTTI_DEVICE static void sync() { ptx::sync_block(); }
  TUTTI_DEVICE Outcome broadcast(Outcome outcome) const {
    return static_cast<Outcome>(broadcast(static_cast<uint32_t>(outcome)));
  }
  /// The leader's value, for all threads.
  TUTTI_DEVICE uint32_t broadcast(uint32_t value) const {
    if (leader()) shared_.word = value;
    sync();
    const uint32_t everyones = shared_.word;
    sync();  // nobody may overwrite it before all have read it
    return everyones;
  }

  // The first warp polls.
  TUTTI_DEVICE static uint32_t pollers() { return ptx::block_size() < ptx::kWarp ? ptx::block_size() : ptx::kWarp; }
  TUTTI_DEVICE static bool polls() { return ptx::thread_index() < ptx::kWarp; }
  TUTTI_DEVICE static Outcome of_leader(Outcome outcome) {
    ptx::sync_warp(poll_mask());
    return static_cast<Outcome>(ptx::shuffle(poll_mask(), static_cast<uint32_t>(outcome), 0));
  }
  /// A barrier of those that poll.
  TUTTI_DEVICE static void sync_pollers() { ptx::sync_warp(poll_mask()); }
  TUTTI_DEVICE static bool any(bool value) { return ptx::ballot(poll_mask(), value) != 0; }
  TUTTI_DEVICE static bool is_first(bool value) {
    const uint32_t those = ptx::ballot(poll_mask(), value);
    return value && (those & ((1U << ptx::lane_index()) - 1)) == 0;
  }

  /// For one thread that waits, in turn `turn`: false if the host has ended the call.
  TUTTI_DEVICE bool keep_waiting(uint32_t turn) const {
    ptx::poll_pause();
    return turn % gpu::kTurnsPerPoll != 0 || ptx::load_relaxed(abort_) == 0;
  }
  /// One thread: what it has read is nothing, so what follows the next barrier must not be done.
  TUTTI_DEVICE void give_up() const { ptx::store_relaxed<ptx::Scope::Device>(&shared_.gave_up, 1); }
  /// A barrier of all threads: whether one of them has given up. Another barrier follows before any thread waits again.
  TUTTI_DEVICE bool any_gave_up() const {
    sync();
    return ptx::load_relaxed<ptx::Scope::Device>(&shared_.gave_up) != 0;
  }

 private:
  TUTTI_DEVICE static uint32_t poll_mask() { return ptx::kWholeWarp >> (ptx::kWarp - pollers()); }

  BlockShared& shared_;
  const uint64_t* const abort_;
};

/// Words that hosts and other GPUs see.
struct SystemMemory {
  TUTTI_DEVICE static uint64_t load(const uint64_t* at) { return ptx::load_relaxed<ptx::Scope::System>(at); }
  TUTTI_DEVICE static uint64_t load_acquire(const uint64_t* at) { return ptx::load_acquire<ptx::Scope::System>(at); }
  TUTTI_DEVICE static void store_release(uint64_t* at, uint64_t value) {
    ptx::store_release<ptx::Scope::System>(at, value);
  }
  TUTTI_DEVICE static void store_relaxed(uint64_t* at, uint64_t value) {
    ptx::store_relaxed<ptx::Scope::System>(at, value);
  }
  TUTTI_DEVICE static link::Line load_line(const link::Line* at) {
    const ptx::Words words = ptx::load_words(reinterpret_cast<const ptx::Words*>(at));
    return {{words.low, words.high}};
  }
  TUTTI_DEVICE static void store_line(link::Line* at, const link::Line& line) {
    ptx::store_words(reinterpret_cast<ptx::Words*>(at), {line.words[0], line.words[1]});
  }
  TUTTI_DEVICE static bool claim(uint64_t* at) {
    return ptx::exchange_relaxed<ptx::Scope::Device>(at, uint64_t{1}) == 0;
  }
  TUTTI_DEVICE static void prefetch(const void*) {}
  TUTTI_DEVICE static void prefetch_for_writing(const void*) {}
};

/// The words of messages in slots: one fence orders all that an instruction publishes.
struct SlotMemory : SystemMemory {
  TUTTI_DEVICE static void fence() { ptx::fence<ptx::Scope::System>(); }
  TUTTI_DEVICE static void store_ordered(uint64_t* at, uint64_t value) {
    ptx::store_ordered<ptx::Scope::System>(at, value);
  }
  /// Lanes of a replica may run in other blocks of this GPU.
  TUTTI_DEVICE static void store_progress(uint64_t* at, uint64_t value) {
    ptx::fence<ptx::Scope::Device>();
    ptx::store_ordered<ptx::Scope::Device>(at, value);
  }
};

/// Links with a ring of descriptors. Staged payloads lie in memory that the reader maps.
struct RingWire : link::SlotWire<SlotMemory> {
  TUTTI_DEVICE static void publish_staged(link::OutLink& out, uint64_t tag, const unsigned char* data,
                                          uint64_t length) {
    publish_mapped(out, tag, {.id = link::kStagingRegion, .base = out.staging}, data, length);
  }
};

/// A GPU reads messages in the memory of others where a table says that it is mapped.
struct MappedReads : NoRemoteAccess {
  static constexpr bool kDrains = true;
  TUTTI_DEVICE static bool accepts(const Instruction&) { return true; }
  /// Not 0: no such memory is mapped. Entries may come while the kernel runs.
  TUTTI_DEVICE static int locate(const link::InLink& in, link::Arrival& arrival, uint64_t bytes) {
    if (in.regions == nullptr || arrival.id >= link::kRegions) return 1;
    const link::MappedRegion& region = in.regions[arrival.id];
    const uint64_t there = SystemMemory::load(&region.bytes);
    if (arrival.offset > there || bytes > there - arrival.offset) return 1;
    const uint64_t base = SystemMemory::load(reinterpret_cast<const uint64_t*>(&region.base));
    arrival.data = reinterpret_cast<const unsigned char*>(base + arrival.offset);
    return 0;
  }
};

using Ll = link::LlWire<SystemMemory>;
using Ll128 = link::Ll128Wire<SystemMemory>;

/// Links in lines and others. A link has one form.
struct MixedWire : link::SlotWire<SlotMemory> {
  using Ring = link::SlotWire<SlotMemory>;
  static constexpr bool kLines = true;

  TUTTI_DEVICE static link::Poll poll(const link::InLink& in, link::Header& header, link::Arrival& arrival) {
    if (in.form == link::Form::Ring) return Ring::poll(in, header, arrival);
    return Ll::poll_as<MixedWire>(in, in.form, header, arrival);
  }
  /// Of a message in lines of either form.
  TUTTI_DEVICE static bool load(const link::Arrival& arrival, uint32_t word, uint64_t& data) {
    const bool whole = arrival.offset == static_cast<uint64_t>(link::Form::Ll128);
    return whole ? Ll128::load(arrival, word, data) : Ll::load(arrival, word, data);
  }
  TUTTI_DEVICE static void consume(link::InLink& in, const link::Arrival& arrival) {
    return in.form != link::Form::Ring ? Ll::consume(in) : Ring::consume(in, arrival);
  }
  TUTTI_DEVICE static bool can_publish(link::OutLink& out) {
    return out.form != link::Form::Ring ? Ll::can_publish(out) : Ring::can_publish(out);
  }
  TUTTI_DEVICE static void published(link::OutLink& out) { Ll::published(out); }
};

/// The wire of short calls: programs of one lane whose messages all travel in (not whole) lines. It orders nothing,
/// so the kernel has no fence: nobody else reads the lane's progress, and a line brings its own flag.
struct ShortWire {
  struct Words : SystemMemory {
    TUTTI_DEVICE static void store_release(uint64_t* at, uint64_t value) { store_relaxed(at, value); }
  };
  static constexpr bool kLines = true;

  TUTTI_DEVICE static link::Poll poll(const link::InLink& in, link::Header& header, link::Arrival& arrival) {
    return Ll::poll(in, header, arrival);
  }
  TUTTI_DEVICE static void consume(link::InLink& in, const link::Arrival&) { Ll::consume(in); }
  TUTTI_DEVICE static bool can_publish(link::OutLink& out) { return Ll::can_publish(out); }
  TUTTI_DEVICE static void published(link::OutLink& out) { Ll::published(out); }

  // There are no other messages.
  TUTTI_DEVICE static void fetch(const link::InLink&) {}
  TUTTI_DEVICE static void refresh(link::OutLink&) {}
  TUTTI_DEVICE static bool can_push(link::OutLink&) { return false; }
  TUTTI_DEVICE static void post(const link::InLink&, uint64_t, uint64_t, unsigned char*) {}
  TUTTI_DEVICE static void publish_inline(link::OutLink&, uint64_t, const unsigned char*, uint64_t) {}
  TUTTI_DEVICE static void publish_staged(link::OutLink&, uint64_t, const unsigned char*, uint64_t) {}
  TUTTI_DEVICE static void publish_pushed(link::OutLink&, uint64_t, uint64_t) {}
  TUTTI_DEVICE static void publish_zcopy(link::OutLink&, uint64_t, const unsigned char*, uint64_t) {}
  TUTTI_DEVICE static void publish_mapped(link::OutLink&, uint64_t, const link::SharedRegion&, const unsigned char*,
                                          uint64_t) {}
};

template <gpu::KernelKind kKind>
using BlockWire = std::conditional_t<kKind == gpu::KernelKind::Short, ShortWire,
                                     std::conditional_t<kKind == gpu::KernelKind::Ll, MixedWire, RingWire>>;

/// Programs that read in place have no messages in lines.
template <gpu::KernelKind kKind>
using BlockRemote = std::conditional_t<kKind == gpu::KernelKind::Slots, MappedReads, NoRemoteAccess>;

}  // namespace tutti::exec::cuda
