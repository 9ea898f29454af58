#include "synth/weakest.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/format.hpp"

namespace tutti::synth {
namespace {

using topo::Link;
using topo::NodeId;
using Ends = std::pair<NodeId, NodeId>;

Ends ends_of(const Link& link) { return std::minmax(link.a, link.b); }

/// GB/s between each two nodes that some message's path joins.
std::map<Ends, double> links_in_use(const topo::Graph& graph, const std::vector<NodeId>& nodes) {
  std::map<Ends, double> used;
  for (const auto& [a, b] : links_of(graph, nodes)) used[std::minmax(a, b)] = 0;
  for (const Link& link : graph.links) {
    if (const auto at = used.find(ends_of(link)); at != used.end()) at->second += link.gbps;
  }
  return used;
}

}  // namespace

topo::Graph without_link(topo::Graph graph, const Loss& loss) {
  std::erase_if(graph.links, [&](const Link& link) { return ends_of(link) == Ends(std::minmax(loss.a, loss.b)); });
  return graph;
}

std::vector<Loss> losses(const topo::Graph& graph, const std::vector<NodeId>& nodes, Collective collective) {
  const double whole = bound_of(network_at_most(graph, nodes), collective).seconds_per_byte();
  const std::map<Ends, double> used = links_in_use(graph, nodes);
  if (used.size() > kMaxLosses) {
    throw_error(Code::Unsupported, "{} links are used; the loss of {} can be tried: give fewer hosts", used.size(),
                kMaxLosses);
  }
  std::vector<Loss> all;
  for (const auto& [ends, gbps] : used) {
    Loss loss{.a = ends.first, .b = ends.second, .gbps = gbps};
    try {
      loss.times = bound_of(network_at_most(without_link(graph, loss), nodes), collective).seconds_per_byte() / whole;
    } catch (const Error& error) {
      if (error.code() != Code::InvalidArgument) throw;
      loss.apart = true;
    }
    all.push_back(loss);
  }
  std::stable_sort(all.begin(), all.end(), [](const Loss& a, const Loss& b) {
    return std::tuple(a.apart, a.times, a.gbps) > std::tuple(b.apart, b.times, b.gbps);
  });
  return all;
}

}  // namespace tutti::synth
