// Plans made for a machine: trees at the rate of the bound, and the plans that move blocks along them.
//
// Words. Each block is cut into `parts` equal parts, and a tree carries one. In some time a link passes a whole number
// of parts; that number is its arc's capacity (in trees). The shortest time in which trees for all parts fit is
// searched for. With the right number of parts it is the bound's; with few parts, capacities are rounded down, and it
// is longer. Few parts make small plans, so of the numbers up to `max_parts` the first one is taken that comes near
// enough to the bound.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "synth/bound.hpp"
#include "synth/pack.hpp"

namespace tutti::synth {

struct SynthesisOptions {
  Rank root = 0;                                     ///< of broadcast and reduce
  int64_t max_parts = 0;                             ///< of a rank's block; 0: as many as keep the plan small
  double near_enough = 0.995;                        ///< part of the bound at which no more parts are tried
  std::function<void(const std::string&)> progress;  ///< is told what is done, for long ones
};

struct Synthesis {
  Collective collective = Collective::AllGather;
  int64_t parts = 1;        ///< of a block
  bool of_buffer = false;   ///< all-reduce: trees carry parts of all of it, whatever their root
  std::vector<Tree> trees;  ///< from the root outwards, also where blocks go to the root
  double fitted = 1;        ///< part of the bound of capacities: trees fit in the bound's time divided by this
  double reached = 1;       ///< the same of the ways that messages really take, which may load a link more
  Pattern pattern = Pattern::Spread;
  std::vector<uint32_t> hosts;  ///< by rank; empty: all of one
  Rank root = 0;                ///< of broadcast and reduce

  Rank depth() const;  ///< of the deepest tree
};

/// Trees for all-gather, reduce-scatter, all-reduce (both, one after the other, or synth/bidirectional.hpp where it is
/// faster), broadcast and reduce.
/// Throws Error(Unsupported) for other collectives, and what tightest_cut() throws.
Synthesis synthesize(const Network& network, Collective collective, const SynthesisOptions& options = {});

/// The plans of all ranks, by rank; of broadcast and reduce by the rank that is so many after the root, since plans
/// count from it. They are not verified yet.
std::vector<plan::RankPlan> plans_of(const Synthesis& synthesis);

}  // namespace tutti::synth
