// Lowering: from a rank's plan and a call's sizes to the program that the interpreter runs.
//
// What it finds: a step and the send of its result become one pass (receive-reduce-send, receive-forward); a result in
// scratch that only its own send reads is folded straight into the outgoing slot; runs of bytes that are contiguous for
// all operands become one segment.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/links.hpp"
#include "exec/program.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

/// The sizes of a call, and what only this rank knows of it.
struct Geometry {
  uint64_t count = 0;   ///< elements of a block (of the buffer, where there are no blocks)
  uint64_t window = 1;  ///< elements of a block that one round moves; ≥ 1
  uint32_t element_bytes = 1;
  Rank root = 0;  ///< the plan's rank 0
  bool in_place = false;
  bool scaled = false;                        ///< a pre-multiplied sum: input cannot be read as it is
  bool pull = false;                          ///< lend, where the link can, also what the kernel then copies
  bool cooperative = false;                   ///< writers that wait help to copy what they lent
  uint64_t direct_store_from = link::kNever;  ///< bytes from which on peers may fold straight into the output
  bool shared[plan::kBuffers] = {};           ///< which buffers are shared memory
  bool nontemporal = false;                   ///< results are too large to stay in the cache: store them past it
};

/// The tables of one size of window.
struct Program {
  std::vector<Range> lanes;
  std::vector<Instruction> ops;
  std::vector<Segment> segments;
  std::vector<Ref> sources;
  std::vector<uint32_t> arrivals;
  std::vector<uint32_t> outs;
  Tables tables() const {
    return {lanes.data(), ops.data(), segments.data(), sources.data(), arrivals.data(), outs.data()};
  }
};

/// A call's program: for all rounds but the last, for the last, and what both need.
struct Lowered {
  Program full, last;
  uint64_t rounds = 1;
  uint64_t scratch_bytes = 0;  ///< of one version; 0 where no operation touches scratch
  bool fenced = false;         ///< the plan has scratch: rounds follow each other as its proof took for granted
  uint64_t window_bytes = 0;
  bool offers = false;         ///< some operation offers a place for its message
  bool lends = false;          ///< some operation may lend memory, which must be given back before the call ends
  uint32_t most_arrivals = 0;  ///< of any operation
  uint32_t most_sources = 0;
  std::vector<OwnedStage> stages;  ///< slot_bytes is set, memory is not
  uint64_t generation = 0;         ///< of the staging memory that the stages have
};

/// Connects the plan's links as a side effect. Throws what connecting throws, and Error(Unsupported) for a fold of two
/// messages from one peer.
Lowered lower(const plan::RankPlan& plan, const Geometry& geometry, Links& links);

}  // namespace tutti::exec
