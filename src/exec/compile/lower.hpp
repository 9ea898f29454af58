// Lowering: turns a rank's plan and a call's sizes into the program that the interpreter runs.
//
// It fuses a step and the send of its result into one pass (receive-reduce-send, receive-forward). It folds a scratch
// result that only its own send reads straight into the outgoing slot. It joins bytes that are contiguous in all
// operands into one segment.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/links.hpp"
#include "exec/program.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

/// The sizes of a call, and this rank's own choices.
struct Geometry {
  uint64_t count = 0;   ///< elements of a block (of the buffer, where there are no blocks)
  uint64_t window = 1;  ///< elements of a block that one round moves; ≥ 1
  uint32_t element_bytes = 1;
  Rank root = 0;  ///< the plan's rank 0
  bool in_place = false;
  bool scaled = false;                        ///< a pre-multiplied sum: the input must be scaled as it is read
  bool allow_cma = false;                     ///< zero-copy also on links whose readers use CMA
  bool cooperative = false;                   ///< cooperative copies of zero-copy messages
  uint64_t direct_store_from = link::kNever;  ///< bytes from which peers may store folds directly into the output
  bool shared[plan::kBuffers] = {};           ///< which buffers lie in memory that peers can map
  bool nontemporal = false;                   ///< results do not fit in the cache: store them past it
};

/// The tables for one window size.
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

/// A call's program: one for all rounds but the last, one for the last, and what both need.
struct Lowered {
  Program full, last;
  uint64_t rounds = 1;
  uint64_t scratch_bytes = 0;  ///< of one version; 0 if no instruction touches scratch
  bool fenced = false;         ///< the plan has scratch, so its rounds are ordered as the verifier assumes
  uint64_t window_bytes = 0;
  bool offers = false;         ///< some instruction offers a destination for a direct store
  bool has_zcopy = false;      ///< some message may be zero-copy: its reader must be done before the call ends
  uint32_t most_arrivals = 0;  ///< of any instruction
  uint32_t most_sources = 0;
  std::vector<OwnedStage> stages;  ///< slot_bytes is set, memory is not
  uint64_t generation = 0;         ///< of the stages' memory
};

/// Connects the plan's links as a side effect. Throws what connecting throws, and Error(Unsupported) for a fold of two
/// messages from one peer.
Lowered lower(const plan::RankPlan& plan, const Geometry& geometry, Links& links);

}  // namespace tutti::exec
