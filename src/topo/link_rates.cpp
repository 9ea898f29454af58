#include "topo/link_rates.hpp"

#include <algorithm>

#include "topo/host_figures.hpp"
#include "topo/paths.hpp"

namespace tutti::topo {
namespace {

/// Raises the rates of links to what a job's figures say of messages on them.
class Raiser {
 public:
  Raiser(const Graph& graph, std::vector<LinkRate>& rates) : graph_(graph), rates_(rates), of_hosts_(graph) {
    // Without numbers of processes, each rank is one.
    std::vector<uint32_t> processes = graph.processes;
    std::sort(processes.begin(), processes.end());
    threads_ = std::adjacent_find(processes.begin(), processes.end()) != processes.end();
  }

  void take(NodeId from, NodeId to, const Path& path) {
    const NodeId a = graph_.host_of(from), b = graph_.host_of(to);
    const Figure* const own = a == b ? nullptr : of_hosts_.of(a, b);
    if (own != nullptr) return raise(path, *own, rate_at_most(*own));
    const bool cores = a == b && graph_.nodes[from].kind == NodeKind::Core;
    for (const Figure& figure : graph_.figures) {
      if (figure.a != kNoNode || (figure.between == Figure::Between::Hosts) != (a != b)) continue;
      if (figure.between == Figure::Between::Threads && !threads_) continue;
      if (!figure.over.empty() && figure.over != name_of(path.kind)) continue;
      const double otherwise = cores ? most_of_copies(figure.gbps, figure.in_place) : figure.gbps;
      raise(path, figure, figure.most > 0 ? rate_at_most(figure) : otherwise);
    }
  }

 private:
  void raise(const Path& path, const Figure& figure, double gbps) {
    for (const uint32_t link : path.links) {
      if (graph_.links[link].measured && figure.a == kNoNode) continue;
      if (gbps > rates_[link].gbps) rates_[link] = {gbps, figure.origin};
    }
  }

  const Graph& graph_;
  std::vector<LinkRate>& rates_;
  const HostFigures of_hosts_;
  bool threads_ = false;  // some ranks share a process
};

}  // namespace

double most_of_copies(double gbps, bool in_place) { return (in_place ? 4 : 2) * gbps; }

double rate_at_most(const Figure& figure) { return std::max(figure.gbps, figure.most); }

std::vector<LinkRate> rates_at_most(const Graph& graph, std::span<const NodeId> ranks) {
  std::vector<LinkRate> rates;
  for (const Link& link : graph.links) {
    rates.push_back({std::max(link.gbps, link.most), link.measured  ? "measured by `tutti tune`"
                                                     : link.assumed ? "assumed"
                                                                    : kPublished});
  }
  if (graph.figures.empty()) return rates;
  const PathFinder finder(graph);
  Raiser raiser(graph, rates);
  for (const NodeId from : ranks) {
    const std::vector<Path> paths = finder.from(from, ranks);
    for (size_t to = 0; to < ranks.size(); ++to) raiser.take(from, ranks[to], paths[to]);
  }
  return rates;
}

}  // namespace tutti::topo
