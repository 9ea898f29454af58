#include "tools/perf/bound.hpp"

#include <algorithm>

#include "select/gpus.hpp"
#include "select/job.hpp"
#include "select/machine.hpp"
#include "select/network.hpp"
#include "select/profile.hpp"
#include "select/synthesis.hpp"
#include "topo/detect.hpp"

namespace tutti::tools {
namespace {

/// In the order of their first ranks.
std::vector<std::string> hosts_of(const std::vector<RankPlace>& places) {
  std::vector<std::string> hosts;
  for (const RankPlace& place : places) {
    if (std::find(hosts.begin(), hosts.end(), place.host) == hosts.end()) hosts.push_back(place.host);
  }
  return hosts;
}

topo::Graph graph_of_gpus(size_t ranks) {
  topo::Graph graph = topo::gpu_topology();
  const std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu);
  graph.ranks.clear();
  for (size_t rank = 0; rank < ranks && !gpus.empty(); ++rank) graph.ranks.push_back(gpus[rank % gpus.size()]);
  const auto profile = select::local_profile();
  graph.figures = select::figures_of_gpus(profile != nullptr && profile->gpus ? profile.get() : nullptr);
  return graph;
}

}  // namespace

const select::KnownBound* RunBound::of(std::string_view method) const {
  if (method != exec::methods::nvls.name) return &known;
  return of_nvls ? &*of_nvls : nullptr;
}

Bounds bounds_of_run(const PerfOptions& options, const std::vector<PerfRow>& rows,
                     const std::vector<RankPlace>& places) {
  const std::vector<std::string> hosts = hosts_of(places);
  if (options.device && hosts.size() > 1) return {};
  topo::Graph graph = options.device
                          ? graph_of_gpus(places.size())
                          : select::graph_as_run(static_cast<Rank>(places.size()), static_cast<Rank>(hosts.size()));
  if (graph.ranks.empty()) return {};
  const auto profile = select::local_profile();
  if (hosts.size() > 1 && profile != nullptr) {
    const std::vector<topo::NodeId> nodes = graph.all(topo::NodeKind::Host);
    for (size_t i = 0; i < nodes.size(); ++i) graph.nodes[nodes[i]].name = hosts[i];
    select::add_measured_hosts(graph, profile->hosts);
  }
  const select::CostInputs inputs = select::inputs_of(graph, 0).inputs;
  Bounds bounds;
  for (const PerfRow& row : rows) {
    if (bounds.count(row.root) > 0) continue;
    const auto bound = select::known_bound(graph, graph.ranks, options.collective, row.root, inputs);
    if (!bound) return {};
    bounds[row.root] = {*bound, select::known_folding_bound(graph, graph.ranks, options.collective, inputs)};
  }
  return bounds;
}

}  // namespace tutti::tools
