// The model: what an algorithm costs on a machine.
//
// Costs are the algorithms' closed forms under the α–β–γ model: T = rounds·α + bytes·β + folded·γ, where `bytes` is the
// larger of what a rank sends and receives. When ranks read each other's memory, a message to several ranks is written
// once and counts once. A method may change the figures (exec/method.hpp).
//
// Oversubscription: with k ranks per core, the ranks of a core run one after the other. α gains k − 1 context switches
// per round; the times to copy and to fold are multiplied by k.
//
// When groups of ranks (of one host, or of one cache) are known, links between groups have their own α and β.
// Algorithms that work along groups, or that keep some steps inside groups of neighbours, state which part of their
// cost goes between groups; each part is paid at its rate. For any other algorithm, the model assumes that all messages
// go between groups. Every rank has its own link out of its group; where ranks share one, β is that of a rank's share
// (select/machine.hpp).
//
// On GPUs, plans that work along groups, and those made for a machine, use links inside groups and between them at the
// same time, each for other windows, where a call has several replicas (blocks): only the first windows of each replica
// go through one phase after the other. How many is as the simulator, which replays the programs, has it.
//
// Times are those of calls that follow each other, as `tutti perf` and `tutti tune` measure them. It matters for
// reduces: a rank that has copied what it sends into staging memory goes on to the next window, or the next call, while
// the root copies this one's out. So their bandwidth is that of the rank with the most to copy (Cost::handled), half of
// β for a byte each way; a short call alone takes longer. In broadcasts the root also copies to its own output, so
// nothing is gained; and in other collectives every rank waits for every other.
#pragma once

#include <cstdint>

#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "select/inputs.hpp"
#include "select/machine_view.hpp"

namespace tutti::select {

/// The modelled time of a call, in seconds, by what it is spent on.
struct Predicted {
  double latency = 0;    ///< rounds, and the processor time of further messages
  double bandwidth = 0;  ///< bytes
  double reduction = 0;  ///< folding
  double seconds() const { return latency + bandwidth + reduction; }
};

exec::Prices prices_of(const CostInputs& inputs);

/// `bytes`: of a block; `window`: of those, in one round of the plan; `replicas`: of the plan, which use all links at
/// the same time (1: one link after the other).
Predicted predict(const plan::Cost& cost, uint64_t bytes, uint64_t window, const exec::Prices& prices,
                  uint32_t replicas = 1);

/// The same of plans whose traffic on the machine is known: it stands in place of the closed form's rounds and bytes.
Predicted predict(const Traffic& traffic, const plan::Cost& cost, uint64_t bytes, uint64_t window,
                  const exec::Prices& prices, uint32_t replicas = 1);

}  // namespace tutti::select
