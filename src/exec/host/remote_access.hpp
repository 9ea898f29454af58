// What a rank on a host does in other ranks' memory, or lets them do in its own: the interpreter's policy Remote.
//
//   zero-copy arrivals   messages that lie in the writer's memory are mapped, copied by CMA, or read at their address,
//                        unless the writer revokes them (link/revoke.hpp)
//   cooperative copies   the writer of a long message copies part of it (link/cooperative_copy.hpp)
//   direct stores        a fold is stored to the readers' destinations (link/cooperative_copy.hpp)
#pragma once

#include "exec/host/host_lane.hpp"
#include "exec/state.hpp"

namespace tutti::exec {

struct HostGroup;

/// The result of reading messages by CMA: 0, or an errno and the index of the message that could not be read.
struct CmaResult {
  int error = 0;
  uint32_t message = 0;
};

struct HostRemoteAccess {
  static constexpr bool kAny = true;
  static constexpr bool kDrains = false;
  static bool accepts(const Instruction& op) { return (op.remote & kZeroCopyArrivals) != 0; }

  /// Sets the address of a message in a region of the writer. 0, or the errno of mapping it. May ask the writer's
  /// control thread.
  static int locate(const link::InLink& in, link::Arrival& arrival, uint64_t bytes);
  /// Offers the destinations of the round's messages, before the round's first message is sent: so a peer that folds
  /// those messages sees the offers.
  static void enter_round(RankState& rank, const LaneState& lane);
  /// Moves the bytes of an instruction with `remote` bits.
  static Outcome move(const HostGroup&, RankState& rank, LaneState& lane, const Instruction& op, unsigned char* slot);

  /// True if that has moved a part of the bytes only: the same instruction is to be run again.
  static bool continues(const LaneState& lane) { return lane.host->copying; }

  // The parts, for tests.

  /// As HostReduce::run, and stores the fold also to HostLane::direct_to[0], if there is one, except for its edges.
  static void store_direct(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                           LaneState& lane);
  /// As HostReduce::run, tile by tile: for sources in other processes, and for several direct stores of the result.
  /// `streamed`: the slot is filled past the cache.
  static CmaResult run_tiled(const Arithmetic& how, const Instruction& op, const Segment& segment, unsigned char* to,
                             unsigned char* slot, const Ref* sources, LaneState& lane, bool streamed = false);

  /// Cooperative copy: copies the next tiles of the lane's message from its first operand to `to`, which lies in
  /// `region` if that has an id. The first call offers the destination to the writer. 0; kWait while the writer copies
  /// its last tiles; or an errno.
  static constexpr int kWait = -1;
  static int copy_next_tile(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                            unsigned char* to, LaneState& lane);

  /// Direct stores. A reader offers the destination of a message of the round.
  static void offer_direct_store(link::InLink& in, const link::SharedRegion& region, const Instruction& op,
                                 unsigned char* to, uint64_t tag);
  /// A writer finds the destinations that its readers offer for the result of a fold. May ask their control threads, so
  /// nothing may be claimed or held meanwhile.
  static void find_direct_stores(RankState& rank, LaneState& lane, const Instruction& op);
  /// Then it claims them; and releases them when it has stored.
  static void claim_direct_stores(RankState& rank, LaneState& lane, const Instruction& op);
  static void finish_direct_stores(RankState& rank, LaneState& lane);
};

}  // namespace tutti::exec
