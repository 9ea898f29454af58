// The mutable state of a running program: one rank in one call, and each of its lanes.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "base/rank.hpp"
#include "exec/instruction.hpp"
#include "link/link.hpp"
#include "link/wire.hpp"
#include "tutti/types.hpp"

namespace tutti {
struct FoldCall;
}

namespace tutti::exec {

struct HostLane;    // exec/host/host_lane.hpp
class StoreChoice;  // exec/store_choice.hpp

/// GaveUp: the host has ended the call while the group waited amid a move.
enum class Outcome : uint32_t { Progress, Waiting, LaneDone, Fault, GaveUp };

/// What a lane waits for. Exchange: the control plane, not a link. A Signal of a window arrives when it is sent, a
/// FarSignal later; no lane waits for them.
enum class Await : uint32_t { Nothing, Message, Credit, Staging, Lane, Round, Exchange, Signal, FarSignal };

enum class FaultKind : uint32_t {
  None,
  OtherCall,   ///< the message belongs to another call
  BadLength,   ///< right call, wrong length
  BadHeader,   ///< the descriptor is not one that this library writes
  BadCounter,  ///< the reader's counter of consumed messages is impossible
  Unreadable,  ///< the peer's zero-copy message can be neither read by CMA nor mapped
  Revoked,     ///< the peer revoked its zero-copy message before it was read: the peer's call has failed
  TwoAtOnce    ///< of a device: two calls of the communicator ran at the same time
};

/// The first error of a call. The communicator turns it into an error text.
struct Fault {
  FaultKind kind = FaultKind::None;
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint64_t expected_bytes = 0;
  link::Header got{};
  int error = 0;       ///< errno, for Unreadable
  uint64_t call = 0;   ///< of a device: the number of the call; TwoAtOnce: of its launch
  uint64_t other = 0;  ///< TwoAtOnce: the number of the other call's launch
};

/// A lane of a rank. One group of threads runs it; of its fields others read only `progress`.
struct LaneState {
  uint64_t progress = 0;  ///< round << 32 | instruction within the lane: all before it is done. Stored with release
  uint32_t lane = 0;      ///< of the plan
  uint32_t row = 0;       ///< in Tables::lanes
  uint32_t arrived = 0;   ///< messages of this instruction that have arrived
  uint64_t round = 0;
  uint64_t repeated = 0;                                  ///< times that this instruction has run in a row
  const Tables* tables = nullptr;                         ///< of this round
  const Instruction* next = nullptr;                      ///< null: the round has not been entered
  const Instruction* end = nullptr;                       ///< of the lane's instructions
  const Instruction* uncommitted = nullptr;               ///< the first whose messages await a fence; null: none
  unsigned char* bases[3] = {nullptr, nullptr, nullptr};  ///< where this round's part of each buffer begins
  Await await = Await::Nothing;
  Rank peer = kNoRank;                       ///< the peer that `await` is about,
  uint32_t link_lane = 0;                    ///< and the lane of the link to it
  link::Arrival* arrivals = nullptr;         ///< room for the messages of any instruction
  const unsigned char** operands = nullptr;  ///< room for the operands of any instruction
  alignas(8) unsigned char small[link::kInlineBytes] = {};
  HostLane* host = nullptr;  ///< on a host: what only hosts keep of a lane
};

/// How this call folds elements.
struct Arithmetic {
  void (*fold)(const FoldCall&) = nullptr;  ///< the host's kernel for this type and operator
  Op op = Op::Sum;                          ///< a device's kernel for this type chooses by it
  uint32_t element_bytes = 1;
  uint32_t divide_by = 0;       ///< averages: completing folds divide by this
  const void* scale = nullptr;  ///< pre-multiplied sums: the factor of raw operands
  bool round_each = false;
};

/// Staging slots whose messages go to the same out-links. A slot is free when every reader has consumed its message.
struct Stage {
  unsigned char* base = nullptr;
  uint64_t slot_bytes = 0;
  uint32_t slots = 0;
  uint32_t readers = 0;
  uint32_t next = 0;               ///< the slot of the next message
  uint64_t* held = nullptr;        ///< [slot][reader]: the count of consumed messages that frees the slot
  const uint32_t* outs = nullptr;  ///< the readers' out-links
  StoreChoice* stores = nullptr;   ///< on a host: how slots are filled
};

/// One rank in one call; or one replica, if the program is wider than one.
struct RankState {
  Tables full;               ///< for all rounds but the last
  Tables last;               ///< for the call's last round
  uint64_t rounds = 1;       ///< of this replica
  uint64_t full_rounds = 0;  ///< of these, how many use `full`
  uint32_t lane_count = 0;
  uint32_t versions = 1;       ///< of scratch; a power of two
  uint64_t scratch_bytes = 0;  ///< of one version
  bool offers = false;         ///< some instruction offers a destination
  bool fenced = false;         ///< no lane enters round k + versions before all have left round k
  bool watched = true;         ///< some lane may wait for another's progress
  bool drains = false;         ///< of a GPU: a lane ends when all its messages have been read
  uint64_t advance_bytes = 0;  ///< by which a round advances input and output
  unsigned char* bases[3] = {nullptr, nullptr, nullptr};
  const link::SharedRegion* shared[3] = {&link::kNoRegion, &link::kNoRegion,
                                         &link::kNoRegion};  ///< the regions that hold the bases
  link::SharedRegion* regions = nullptr;  ///< of a GPU: the first two of them, which each call sets; null: none is used
  uint64_t tag = 0;
  link::OutLink* out = nullptr;
  link::InLink* in = nullptr;
  Stage* const* stages = nullptr;
  LaneState* lanes = nullptr;
  Arithmetic arithmetic;
  uint64_t faulted = 0;  ///< not 0: a lane has claimed `fault`
  Fault fault;           ///< the first one; read it when all lanes have stopped
};

/// `base` + `bytes`; `base` is null when offsets are addresses.
TUTTI_HD inline unsigned char* moved(unsigned char* base, uint64_t bytes) {
  return reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(base) + bytes);
}

/// The address of local memory in the lane's round.
TUTTI_HD inline unsigned char* address(const LaneState& lane, const Ref& ref) {
  return moved(lane.bases[static_cast<uint32_t>(ref.base)], ref.offset);
}

/// Where the instruction's outgoing message is written. Not for Slot::None.
TUTTI_HD inline unsigned char* outgoing(const RankState& rank, LaneState& lane, const Instruction& op) {
  if (op.slot == Slot::Small) return lane.small;
  if (op.slot == Slot::Push) return link::push_slot(rank.out[lane.tables->outs[op.push_to].link]);
  const Stage& stage = *rank.stages[op.stage];
  return stage.base + stage.next * stage.slot_bytes;
}

/// Messages that are in memory are given by their address.
struct InMemory {
  TUTTI_HD static void set_operand(const unsigned char** operands, uint32_t k, const link::Arrival& arrival,
                                   uint64_t offset) {
    operands[k] = arrival.data + offset;
  }
};

/// Sets the addresses of a segment's operands, of every `step`-th from number `first` on. True if one of them is an
/// address in another process.
template <class Reduce = InMemory>
TUTTI_HD inline bool set_operands(const LaneState& lane, const Instruction& op, const Segment& segment,
                                  const unsigned char** operands, uint32_t first = 0, uint32_t step = 1) {
  const Ref* sources = lane.tables->sources + segment.sources;
  bool elsewhere = false;
  TUTTI_HD_ROLLED
  for (uint32_t k = first; k < op.sources; k += step) {
    if (sources[k].base == Base::Message) {
      const link::Arrival& arrival = lane.arrivals[sources[k].message];
      Reduce::set_operand(operands, k, arrival, sources[k].offset);
      elsewhere = elsewhere || arrival.where == link::Where::Cma;
    } else {
      operands[k] = address(lane, sources[k]);
    }
  }
  return elsewhere;
}

}  // namespace tutti::exec
