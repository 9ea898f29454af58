// The interpreter's policies for the host, where the group is one thread.
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
  /// Sets the address of a message in a region of the writer. 0, or the errno of mapping it.
  static int find_mapped(const link::InLink& in, link::Arrival& arrival, uint64_t bytes) {
    int error = 0;
    arrival.data = in.mappings->find(arrival.region, arrival.offset, bytes, error);
    return error;
  }
  /// Called before and after the zero-copy messages of an instruction are read (link/revoke.hpp). The index of a
  /// revoked message, or kNone.
  static uint32_t begin_reads(RankState& rank, const LaneState& lane, const Instruction& op);
  static uint32_t end_reads(RankState& rank, const LaneState& lane, const Instruction& op);

  /// As run(), and stores the fold also to `lane.direct_to[0]`, except for its edges.
  static void store_direct(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                           LaneState& lane);
  /// As run(), tile by tile: for sources in other processes, and for several direct stores of the result.
  static CmaResult run_tiled(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                             unsigned char* slot, const Ref* sources, LaneState& lane);

  /// Cooperative copy: copies the next tiles of the lane's message from `pointers[0]` to `to`, which lies in `region`
  /// if that has an id. The first call offers the destination to the writer. 0; kWait while the writer copies its last
  /// tiles; or an errno.
  static constexpr int kWait = -1;
  static int copy_next_tile(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                            unsigned char* to, LaneState& lane);

  /// Direct stores (link/cooperative_copy.hpp): a reader offers the destination of a message of the round; a writer
  /// claims the destinations that its readers offer for the result of a fold, and releases them when it has stored.
  static void offer_direct_store(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                                 unsigned char* to, uint64_t tag);
  static void claim_direct_stores(RankState& rank, LaneState& lane, const Instruction& op);
  static void finish_direct_stores(RankState& rank, LaneState& lane);

  /// `past`: store the local copy past the cache even if the instruction is not nontemporal.
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
