#include "comm/topology.hpp"

#include <map>
#include <set>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "topo/cluster.hpp"
#include "topo/detect.hpp"
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

std::vector<Rank> first_ranks(const std::vector<uint32_t>& hosts) {
  std::vector<Rank> first;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == first.size()) first.push_back(static_cast<Rank>(rank));
  }
  return first;
}

topo::Graph unknown_host(const std::string& why) {
  topo::Graph unknown;
  unknown.add({.kind = topo::NodeKind::Host});
  unknown.notes.push_back(fmt::format("a host's topology is unknown: {}", why.substr(0, 300)));
  return unknown;
}

/// This host's, without ranks: those are the communicator's.
topo::Graph describe(const std::function<const topo::Graph&()>& mine) {
  try {
    topo::Graph graph = mine();
    graph.ranks.clear();
    return graph;
  } catch (const Error& error) {
    return unknown_host(error.what());
  }
}

topo::Graph read(const std::string& text, Rank rank) {
  try {
    topo::Graph graph = topo::graph_of_json(text, "its topology");
    if (graph.all(topo::NodeKind::Host).size() == 1) return graph;
  } catch (const Error& error) {
    throw_error(Code::ProtocolError, "rank {}: {}", rank, error.what());
  }
  throw_error(Code::ProtocolError, "rank {}: its topology is not that of one host", rank);
}

/// The numbers of the ranks' processes.
std::vector<uint32_t> processes_of(const control::Endpoint& endpoint) {
  std::map<std::pair<std::string, uint64_t>, uint32_t> numbers;
  std::vector<uint32_t> processes;
  for (Rank rank = 0; rank < endpoint.ranks(); ++rank) {
    const transports::ProcessId& id = endpoint.process_id(rank);
    const auto next = static_cast<uint32_t>(numbers.size());
    processes.push_back(numbers.emplace(std::pair(id.host, id.nonce), next).first->second);
  }
  return processes;
}

/// 0 where it cannot be described.
uint64_t kind_of(const topo::Graph& (*mine)()) {
  try {
    return topo::hash_of(mine()) | 1;
  } catch (const Error& error) {
    log_debug("this host's topology is unknown: {}", error.what());
    return 0;
  }
}

}  // namespace

uint64_t kind_of_this_host() {
  static const uint64_t kKind = kind_of(topo::kept_topology);
  return kKind;
}

uint64_t kind_with_gpus() {
  static const uint64_t kKind = kind_of(topo::gpu_topology);
  return kKind;
}

topo::Graph job_topology(control::Endpoint& endpoint, const std::vector<PlaceReport>& places,
                         const std::function<const topo::Graph&()>& mine, Deadline deadline) {
  const std::vector<uint32_t> hosts = hosts_of(endpoint);
  const auto kind = [&](Rank rank) { return places[static_cast<size_t>(rank)].kind; };
  std::map<uint64_t, Rank> speakers;  // by kind: all but rank 0's, and what is unknown
  for (const Rank rank : first_ranks(hosts)) {
    if (kind(rank) != kind(0) && kind(rank) != 0) speakers.emplace(kind(rank), rank);
  }
  std::map<uint64_t, topo::Graph> known;
  if (!speakers.empty()) {
    const auto mine_is = speakers.find(kind(endpoint.rank()));
    const bool speaks = mine_is != speakers.end() && mine_is->second == endpoint.rank();
    const std::vector<std::string> texts = endpoint.exchange(speaks ? to_json(describe(mine)) : "", deadline);
    if (endpoint.rank() != 0) return {};
    for (const auto& [its, rank] : speakers) known[its] = read(texts[static_cast<size_t>(rank)], rank);
  }
  if (endpoint.rank() != 0) return {};
  known[0] = unknown_host("hwloc does not describe it");
  if (kind(0) != 0) known[kind(0)] = describe(mine);
  std::vector<topo::Graph> parts;
  for (const Rank rank : first_ranks(hosts)) {
    parts.push_back(known.at(kind(rank)));
    parts.back().nodes[parts.back().all(topo::NodeKind::Host).front()].name = places[static_cast<size_t>(rank)].host;
  }
  std::vector<topo::RankPlace> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) ranks.push_back({hosts[rank], places[rank].cores});
  topo::Graph graph = topo::merge_ranks(parts, ranks);
  graph.processes = processes_of(endpoint);
  return graph;
}

}  // namespace tutti::comm
