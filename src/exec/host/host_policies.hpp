// The interpreter's policies for a host: one thread is the whole group.
#pragma once

#include <utility>

#include "exec/interpreter.hpp"
#include "link/host_memory.hpp"
#include "link/mapped_memory.hpp"
#include "reduce/fold.hpp"

namespace tutti::exec {

struct HostGroup {
  static bool leader() { return true; }
  static void sync() {}
  static Outcome broadcast(Outcome outcome) { return outcome; }
};

struct HostReduce {
  static constexpr bool kRemoteAccess = true;
  /// Finds a message that lies in the writer's shared memory. 0, or the errno of why it cannot be had.
  static int look(const link::InLink& in, link::Arrival& arrival, uint64_t bytes) {
    int error = 0;
    arrival.data = in.mappings->find(arrival.region, arrival.offset, bytes, error);
    return error;
  }
  /// Lent messages (link/revoke.hpp): before and after those of an operation are read. Which of them is not lent
  /// any more; kNone: all are.
  static uint32_t hold(RankState& rank, const LaneState& lane, const Instruction& op);
  static uint32_t release(RankState& rank, const LaneState& lane, const Instruction& op);

  /// As run(), of a fold that is stored to `lane.places[0]` too, but for what is trimmed there.
  static void place(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                    LaneState& lane);
  /// As run(), tile by tile: where some sources lie in other processes, or the result has several places.
  static Pulled pull(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                     unsigned char* slot, const Ref* sources, LaneState& lane);

  /// Copies a tile of the lane's message, which lies at `pointers[0]`, to `to`, in `region` if that has an id; the
  /// first time the writer is asked to help. 0; or kWait while the writer copies the last tile; or an errno.
  static constexpr int kWait = -1;
  static int share(link::InLink& in, const link::SharedRegion& region, const Instruction& op, unsigned char* to,
                   LaneState& lane);

  /// Placing (link/cooperative_copy.hpp): a reader offers a place for a message of the round; a writer claims those
  /// that its readers have offered for the result of a fold; and is done with them.
  static void offer_direct_store(link::InLink& in, const link::SharedRegion& region, const Instruction& op, unsigned char* to,
                          uint64_t tag);
  static void claim_direct_stores(RankState& rank, LaneState& lane, const Instruction& op);
  static void finish_direct_stores(RankState& rank, LaneState& lane);

  /// `past`: the local copy goes past the cache, also where the operation does not say so.
  static void run(const HostGroup&, const Arithmetic& how, const Instruction& op, const Segment& segment,
                  unsigned char* to, unsigned char* slot, const unsigned char* const* sources, bool past = false) {
    const bool scale = how.scale != nullptr && segment.raw >= 0;
    auto* dst = reinterpret_cast<std::byte*>(to);
    auto* dst2 = reinterpret_cast<std::byte*>(slot);
    const auto* src = reinterpret_cast<const std::byte* const*>(sources);
    if (op.sources == 1 && !scale) {
      if (dst == src[0]) dst = nullptr;  // in place: already there
      if (dst != nullptr || dst2 != nullptr) copy_bytes(dst, dst2, src[0], segment.bytes, op.nontemporal);
      return;
    }
    if (dst == nullptr && dst2 == nullptr) return;
    how.fold({.dst = dst,
              .dst2 = dst2,
              .sources = src,
              .source_count = op.sources,
              .count = segment.bytes / how.element_bytes,
              .shape = op.shape,
              .stream = op.nontemporal || past,
              .round_each = how.round_each,
              .divide_by = op.completes ? how.divide_by : 0,
              .scaled_source = scale ? segment.raw : -1,
              .scale = how.scale});
  }
};

using HostInterpreter = Interpreter<HostGroup, link::SlotWire<link::HostMemory>, HostReduce>;

}  // namespace tutti::exec
