// What a job adds to a topology: its ranks, what messages between them take, and facts of its processes. Choices follow
// from that graph alone: any program that reads it makes the same ones.
#pragma once

#include <map>
#include <string>

#include "select/machine.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// Where the figures of these links come from, on this host. The profile has those of a transport ("shm"), or of a kind
/// ("threads", "processes"). Between hosts nothing is measured unasked.
std::string origin_of_figures(const std::string& transport, const std::string& kind, bool between_hosts);

/// GB/s that messages of a host reach at most, by this host's calibration: both ends of one copy at the same time, at
/// the length that caches like best. 0: it is unknown.
double most_inside();

/// What choices depend on beside links, as Graph::facts: of inputs whose hand-over is known.
std::map<std::string, double> facts_of(const CostInputs& inputs);

/// This machine, or `hosts` machines like it, with the ranks and figures that such a job has; no ranks where the
/// machine cannot be described.
topo::Graph graph_as_run(Rank ranks, Rank hosts);

/// As a job of processes would choose that `tutti run` starts on this machine, or on `hosts` machines like this: bound
/// to cores as far as there are enough. Where the machine cannot be described, inputs_here().
MachineInputs inputs_as_run(Rank ranks, Rank hosts);

}  // namespace tutti::select
