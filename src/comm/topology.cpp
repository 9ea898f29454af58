#include "comm/topology.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "topo/cluster.hpp"
#include "topo/graph_json.hpp"

namespace tutti::comm {
namespace {

/// The number of each rank's host, by order of their first ranks.
std::vector<uint32_t> hosts_of(const control::Endpoint& endpoint) {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> hosts;
  for (Rank rank = 0; rank < endpoint.ranks(); ++rank) {
    const auto next = static_cast<uint32_t>(numbers.size());
    hosts.push_back(numbers.emplace(endpoint.process_id(rank).host, next).first->second);
  }
  return hosts;
}

/// This host's description, without ranks: those are the communicator's.
std::string describe(const std::function<const topo::Graph&()>& mine) {
  try {
    topo::Graph graph = mine();
    graph.ranks.clear();
    return to_json(graph);
  } catch (const Error& error) {
    topo::Graph unknown;
    unknown.add({.kind = topo::NodeKind::Host});
    unknown.notes.push_back(fmt::format("a host's topology is unknown: {}", std::string(error.what()).substr(0, 300)));
    return to_json(unknown);
  }
}

topo::Graph read(const std::string& text, Rank rank) {
  try {
    return topo::graph_of_json(text, "its topology");
  } catch (const Error& error) {
    throw_error(Code::ProtocolError, "rank {}: {}", rank, error.what());
  }
}

}  // namespace

topo::Graph exchange_topology(control::Endpoint& endpoint, std::span<const Cores> cores,
                              const std::function<const topo::Graph&()>& mine, Deadline deadline) {
  const std::vector<uint32_t> hosts = hosts_of(endpoint);
  std::vector<Rank> first;  // of each host
  for (Rank rank = 0; rank < endpoint.ranks(); ++rank) {
    if (hosts[static_cast<size_t>(rank)] == first.size()) first.push_back(rank);
  }
  const bool speaks = first[hosts[static_cast<size_t>(endpoint.rank())]] == endpoint.rank();
  const std::vector<std::string> texts = endpoint.exchange(speaks ? describe(mine) : "", deadline);
  std::vector<topo::Graph> parts;
  std::map<std::string_view, size_t> known;  // clusters have many equal hosts
  for (const Rank rank : first) {
    const std::string& text = texts[static_cast<size_t>(rank)];
    const auto [at, is_new] = known.emplace(text, parts.size());
    parts.push_back(is_new ? read(text, rank) : parts[at->second]);
    if (parts.back().all(topo::NodeKind::Host).size() != 1) {
      throw_error(Code::ProtocolError, "rank {}: its topology is not that of one host", rank);
    }
  }
  std::vector<topo::RankPlace> places;
  for (size_t rank = 0; rank < hosts.size(); ++rank) places.push_back({hosts[rank], cores[rank]});
  return topo::merge_ranks(parts, places);
}

}  // namespace tutti::comm
