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
// Calls back to back: of a call with a root, not all ranks wait for all others. Through staging memory, a rank copies
// what it sends and goes on to the next call while others copy this one's. So the time from one call to the next is
// that of the rank with the most to copy, half of β for each byte it sends or receives, and folds. Algorithms are
// compared by the mean of both times.
#pragma once

#include <cstdint>

#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "select/inputs.hpp"
#include "select/machine_view.hpp"

namespace tutti::select {

/// The modelled time of one call, in seconds, by what it is spent on.
struct Predicted {
  double latency = 0;    ///< rounds, and the processor time of further messages
  double bandwidth = 0;  ///< bytes
  double reduction = 0;  ///< folding
  double overlap = 0;    ///< of the bandwidth: what runs beside the next call, where calls follow each other
  double seconds() const { return latency + bandwidth + reduction; }
  /// From one call to the next, back to back.
  double interval() const { return seconds() - overlap; }
  /// Of both, geometric: programs wait for some results and not for others.
  double mean() const;
};

exec::Prices prices_of(const CostInputs& inputs);

/// `bytes`: of a block; `window`: of those, in one round of the plan.
Predicted predict(const plan::Cost& cost, uint64_t bytes, uint64_t window, const exec::Prices& prices);

/// The same of plans whose traffic on the machine is known: it stands in place of the closed form's rounds and bytes.
Predicted predict(const Traffic& traffic, const plan::Cost& cost, uint64_t bytes, uint64_t window,
                  const exec::Prices& prices);

}  // namespace tutti::select
