#include "tools/topo/weakest.hpp"

#include <map>
#include <tuple>
#include <vector>

#include "base/format.hpp"
#include "synth/weakest.hpp"

namespace tutti::tools {
namespace {

std::string end_of(const topo::Graph& graph, topo::NodeId node) {
  const bool several = graph.all(topo::NodeKind::Host).size() > 1;
  const bool inside = graph.nodes[node].kind != topo::NodeKind::Fabric;
  return several && inside ? label(graph, graph.host_of(node)) + ": " + label(graph, node) : label(graph, node);
}

}  // namespace

std::string weakest_text(const topo::Graph& graph, Collective collective) {
  std::vector<topo::NodeId> ranks = graph.all(topo::NodeKind::Gpu);
  if (ranks.empty()) ranks = graph.all(topo::NodeKind::Core);
  const synth::Network network = synth::network_of(graph, ranks);
  const synth::Bound bound = synth::bound_of(network, collective);
  std::string text =
      fmt::format("{} on {} ranks, at best: {}\n", name_of(collective), ranks.size(), synth::words_of(network, bound));
  text += fmt::format("\n{:>12}{:>10}{:>7}  {}\n", "without it", "GB/s", "links", "for example");
  const std::vector<synth::Loss> losses = synth::losses(graph, ranks, collective);
  for (size_t i = 0; i < losses.size();) {  // those that are alike are one line
    const synth::Loss& first = losses[i];
    size_t alike = 0;
    for (; i < losses.size() && losses[i].apart == first.apart && losses[i].times == first.times &&
           losses[i].gbps == first.gbps;
         ++i) {
      ++alike;
    }
    const std::string cost = first.apart ? "apart" : fmt::format("{:.2f} times", first.times);
    text += fmt::format("{:>12}{:>10.4g}{:>7}  {} - {}\n", cost, first.gbps, alike, end_of(graph, first.a),
                        end_of(graph, first.b));
  }
  return text +
         "\napart: some ranks cannot reach each other then. 1.00 times: nothing is lost, with plans that are made "
         "for what is left.\n";
}

}  // namespace tutti::tools
