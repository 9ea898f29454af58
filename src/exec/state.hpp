// What changes while a program runs: one rank in one call, and each of its lanes.
#pragma once

#include <cstdint>

#include "exec/program.hpp"
#include "link/link.hpp"
#include "link/wire.hpp"

namespace tutti {
struct FoldCall;
}

namespace tutti::exec {

enum class Outcome : uint32_t { Progress, Waiting, LaneDone, Fault };

/// What a lane waits for.
/// Exchange: over the control plane, not over links.
enum class Await : uint32_t { Nothing, Message, Credit, Staging, Lane, Round, Exchange };

enum class FaultKind : uint32_t {
  None,
  OtherCall,   ///< the message belongs to another call than ours
  BadLength,   ///< right call, wrong length
  BadHeader,   ///< no writer of ours writes such a descriptor
  BadCounter,  ///< no reader of ours claims to have consumed so much
  Unreadable,  ///< what the peer lent can be neither by_cma from its process nor mapped
  Revoked    ///< what the peer lent was its again before we had read it: its call has failed
};

/// The first thing that was wrong, for the communicator to put into words.
struct Fault {
  FaultKind kind = FaultKind::None;
  Rank peer = kNoRank;
  uint32_t lane = 0;
  uint32_t step = 0;
  uint64_t expected_bytes = 0;
  link::Header got{};
  int error = 0;  ///< errno of an Unreadable one
};

struct LaneState {
  uint32_t lane = 0;
  uint32_t op = 0;       ///< within the lane
  uint32_t arrived = 0;  ///< messages of this operation that are in
  uint64_t round = 0;
  uint64_t warm = 0;                  ///< the round (and one) whose slots have been fetched for writing
  const Tables* tables = nullptr;     ///< of this round
  const Instruction* next = nullptr;  ///< what is to be done; null: the round is still to be entered
  uint32_t ops = 0;                   ///< that the lane has
  unsigned char* bases[3] = {nullptr, nullptr, nullptr};  ///< where this round's part of each buffer begins
  Await await = Await::Nothing;
  Rank peer = kNoRank;                       ///< whom `await` is about,
  uint32_t link_lane = 0;                    ///< and on which of its links
  link::Arrival* arrivals = nullptr;         ///< room for the most messages that an operation takes
  const unsigned char** pointers = nullptr;  ///< room for the most operands
  unsigned char small[link::kInlineBytes] = {};
  bool copying = false;  ///< the operation goes on: its message is copied tile by tile, maybe not by us alone
  uint32_t placed = 0;   ///< readers that get the fold at hand where they want it,
  unsigned char* places[kMaxDirectStores] = {};  ///< which is there,
  link::Edges direct_edges[kMaxDirectStores] = {};       ///< but for these bytes,
  uint32_t direct_outs[kMaxDirectStores] = {};    ///< and their links
};

/// How this call combines elements.
struct Arithmetic {
  void (*fold)(const FoldCall&) = nullptr;  ///< the host's kernel for this type and operator
  uint32_t element_bytes = 1;
  uint32_t divide_by = 0;       ///< averages: completing folds divide by this
  const void* scale = nullptr;  ///< pre-multiplied sums: what raw operands are multiplied by
  bool round_each = false;
};

inline constexpr link::SharedRegion kNoRegion{};

/// One rank in one call.
struct RankState {
  Tables full;  ///< for all rounds but the last
  Tables last;  ///< for the last round
  uint64_t rounds = 1;
  uint32_t lane_count = 0;
  uint32_t versions = 1;       ///< of scratch
  uint64_t scratch_bytes = 0;  ///< of one version
  bool offers = false;         ///< some operation does
  bool fenced = false;         ///< no lane enters round k + versions before all have left round k
  uint64_t window_bytes = 0;   ///< what a round advances input and output by
  unsigned char* bases[3] = {nullptr, nullptr, nullptr};
  const link::SharedRegion* shared[3] = {&kNoRegion, &kNoRegion, &kNoRegion};  ///< where the bases are
  uint64_t tag = 0;
  link::OutLink* out = nullptr;
  link::InLink* in = nullptr;
  Stage* stages = nullptr;
  LaneState* lanes = nullptr;
  Arithmetic arithmetic;
  Fault fault;
};

}  // namespace tutti::exec
