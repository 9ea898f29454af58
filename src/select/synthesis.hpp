// Bounds of a machine and plans made for it, as the decision table and its explanations take them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "select/inputs.hpp"
#include "select/synthesised.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// The least time of a collective between ranks on these nodes (by rank); what an empty message takes follows from
/// `inputs` of the same machine. None where no bound is known: of other collectives, of ranks that share a node, of
/// very many ranks, and where some rank cannot reach another. `root`: of broadcast and reduce; none: the least bound of
/// those that the selector looks at (likely_roots).
std::optional<KnownBound> known_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                      Collective collective, std::optional<Rank> root, const CostInputs& inputs);

/// The same of what the method nvls runs, where switches fold (synth/folding.hpp). None: `inputs` has no such method,
/// it runs no such collective, or no bound is known.
std::optional<KnownBound> known_folding_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                                              Collective collective, const CostInputs& inputs);

/// Puts both beside what is known of the machine's plans, in place of what was kept with them: that was made with the
/// figures of another time.
void add_bound(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks, Collective collective,
               std::optional<Rank> root, CostInputs& inputs);

/// Whether there are synthesised plans of it.
bool is_synthesised(Collective collective);

/// Plans for all collectives that can be synthesised, for large calls and for small ones, drawn on the order of
/// `inputs`; and the bounds of all that have one. `only`: of this one alone. `progress` is told what is done. Throws
/// Error(InvalidArgument) for machines that synth::network_of() refuses.
SynthesisedText synthesise_for(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks,
                               const CostInputs& inputs, const std::function<void(const std::string&)>& progress,
                               std::optional<Collective> only = {});

}  // namespace tutti::select
