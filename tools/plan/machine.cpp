#include "tools/plan/machine.hpp"

#include <algorithm>
#include <set>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "select/machine.hpp"
#include "select/synthesised.hpp"
#include "tools/machine_options.hpp"
#include "topo/without.hpp"

namespace tutti::tools {
namespace {

/// "0,2,4-7": ascending, each once.
std::vector<Rank> ranks_named(const std::string& text, Rank ranks) {
  const auto bad = [&](const std::string& why) {
    throw_error(Code::InvalidArgument, "--ranks {}: {}; write ranks from 0 to {} in ascending order, like 0,2,4-7",
                text, why, ranks - 1);
  };
  std::vector<Rank> named;
  const auto number = [&](const std::string& word) -> Rank {
    if (word.empty() || word.size() > 6 || word.find_first_not_of("0123456789") != std::string::npos) {
      bad(fmt::format("'{}' is no rank", word));
    }
    return static_cast<Rank>(std::stoi(word));
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const size_t dash = word.find('-');
    const Rank first = number(word.substr(0, dash));
    const Rank last = dash == std::string::npos ? first : number(word.substr(dash + 1));
    if (last >= ranks) bad(fmt::format("there are {}", counted(static_cast<uint64_t>(ranks), "rank")));
    if (last < first || (!named.empty() && first <= named.back())) bad(fmt::format("'{}' is not ascending", word));
    for (Rank rank = first; rank <= last; ++rank) named.push_back(rank);
  }
  return named;
}

}  // namespace

Machine machine_of(const SceneOptions& scene, const std::string& named) {
  topo::Graph graph = topology_from(scene.topology, scene.nvlink, scene.hosts, scene.without);
  if (!named.empty()) {
    const select::RankNodes all = select::place_ranks(graph, scene.ranks);
    std::set<topo::NodeId> others(all.nodes.begin(), all.nodes.end());
    for (const Rank rank : ranks_named(named, static_cast<Rank>(all.nodes.size()))) {
      others.erase(all.nodes[static_cast<size_t>(rank)]);
    }
    graph = topo::without_nodes(graph, others);
  }
  // Ranks of a job may use several cores each.
  std::vector<topo::NodeId> nodes =
      select::nodes_of_plans(graph, select::place_ranks(graph, named.empty() ? scene.ranks : Rank{0}).nodes, {});
  if (nodes.size() < 2) {
    const std::string given = named.empty() ? std::string() : fmt::format("--ranks {} names no other: ", named);
    throw_error(Code::InvalidArgument,
                "{}one rank sends nothing, and needs no plan; -n says how many ranks there are, --ranks 0-3 which",
                given);
  }
  return {std::move(graph), std::move(nodes)};
}

}  // namespace tutti::tools
