// Lowering: turns a rank's plan and a call's sizes into the program that the interpreter runs.
//
// It fuses a step and the send of its result into one pass (receive-reduce-send, receive-forward). It folds a scratch
// result that only its own send reads straight into the outgoing slot. It joins bytes that are contiguous in all
// operands into one segment.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/compile/delivery.hpp"
#include "exec/program.hpp"
#include "link/traits.hpp"
#include "plan/order.hpp"
#include "plan/plan.hpp"

namespace tutti::exec {

/// The sizes of a call, and this rank's own facts.
struct Geometry {
  uint64_t count = 0;   ///< elements of a block (of the buffer, where there are no blocks)
  uint64_t window = 1;  ///< elements of a block that one round moves; ≥ 1
  uint32_t element_bytes = 1;
  uint32_t width = 1;     ///< of the program, at most its rounds
  Rank root = 0;          ///< the plan's rank 0
  plan::RankOrder order;  ///< that the plan was drawn on
  bool in_place = false;
  bool scaled = false;               ///< a pre-multiplied sum: the input must be scaled as it is read
  bool shared[plan::kBuffers] = {};  ///< which buffers lie in memory that peers can map
  const Method* method = &methods::lanes;
  bool nontemporal = false;  ///< results do not fit in the cache: store them past it
  DeliveryRules rules;
};

/// What the links between this rank and each peer can do, by rank; gathered before a program is compiled. Of ranks that
/// the program has no link to, nothing need be known.
using PeerTraits = std::vector<link::LinkTraits>;

/// The ranks that a plan has links to or from, in the communicator's numbers. Ascending.
std::vector<Rank> peers_of(const plan::RankPlan& plan, const Geometry& geometry);

/// A pure function: connects nothing and asks nobody. Throws Error(Unsupported) for a fold of two messages from one
/// peer.
Program lower(const plan::RankPlan& plan, const Geometry& geometry, const PeerTraits& traits);

}  // namespace tutti::exec
