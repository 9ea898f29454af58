// Four hosts, and what would be measured of their network.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "select/explain.hpp"
#include "select/islands.hpp"
#include "select/machine.hpp"
#include "select/network.hpp"
#include "select/select.hpp"
#include "topo/cluster.hpp"

namespace tutti::select::four_hosts {

using topo::Figure;
using topo::NodeKind;

inline const std::vector<std::string> kNames{"host0", "host1", "host2", "host3"};
inline constexpr double kFast = 100e6, kSlow = 25e6;  // bytes per second
inline const std::vector<double> kAtOnce(4, 1 / kFast);

/// Four hosts of a core and a NIC of 10 Gb/s each, with a rank each.
inline topo::Graph job(uint32_t ranks_of_each = 1) {
  std::vector<topo::Graph> parts;
  std::vector<topo::RankPlace> ranks;
  for (const std::string& name : kNames) {
    topo::Graph graph;
    const topo::NodeId host = graph.add({.kind = NodeKind::Host, .name = name, .processors = {0, 1}});
    const topo::NodeId package = graph.add({.kind = NodeKind::Package, .parent = host, .processors = {0, 1}});
    for (int core = 0; core < 2; ++core) {
      const topo::NodeId id = graph.add({.kind = NodeKind::Core, .parent = package, .processors = {core}});
      graph.connect({.a = id, .b = package, .gbps = 50, .us = 0.02});
    }
    const topo::NodeId nic = graph.add({.kind = NodeKind::Nic, .parent = package, .name = "eth0", .port = 1.2});
    graph.connect({.a = nic, .b = package, .kind = topo::LinkKind::Pci, .gbps = 30, .us = 0.5});
    for (uint32_t i = 0; i < ranks_of_each; ++i) {
      ranks.push_back({static_cast<uint32_t>(parts.size()), {static_cast<int>(i)}});
    }
    parts.push_back(std::move(graph));
  }
  topo::Graph graph = topo::merge_ranks(parts, ranks);
  graph.figures = {{.between = Figure::Between::Processes, .us = 0.5, .gbps = 10, .in_place = true, .transport = "shm"},
                   {.between = Figure::Between::Hosts, .us = 20, .gbps = 0.1, .transport = "tcp", .origin = "test"}};
  return graph;
}

/// What would be measured where each host has such a link, and hosts of different islands share one.
inline MeasuredHosts measured(const std::vector<double>& links, const std::vector<size_t>& islands = {0, 0, 0, 0},
                              double between = kSlow) {
  const auto rate = [&](const HostPair& pair, double share) {
    const double own = std::min(links[pair.first], links[pair.second]);
    return islands[pair.first] == islands[pair.second] ? own : std::min(own, between * share);
  };
  std::vector<std::vector<double>> betas;
  std::vector<MeasuredPair> pairs;
  for (const auto& round : round_robin(links.size())) {
    betas.emplace_back();
    const auto crosses = [&](const HostPair& pair) { return islands[pair.first] != islands[pair.second]; };
    const auto crossing = static_cast<double>(std::count_if(round.begin(), round.end(), crosses));
    for (const HostPair& pair : round) {
      betas.back().push_back(1 / rate(pair, 1 / std::max(1.0, crossing)));
      pairs.push_back({kNames.at(pair.first), kNames.at(pair.second), 20e-6, 1 / rate(pair, 1)});
    }
  }
  std::vector<double> at_once;
  for (const double link : links) at_once.push_back(1 / link);
  MeasuredHosts hosts = wiring_of(kNames, std::move(pairs), betas, at_once);
  hosts.transport = "tcp";
  return hosts;
}

inline topo::Graph with(const MeasuredHosts& hosts, uint32_t ranks_of_each = 1) {
  topo::Graph graph = job(ranks_of_each);
  add_measured_hosts(graph, hosts);
  topo::check(graph);
  return graph;
}

inline Candidate best(const topo::Graph& graph, Collective collective) {
  const MachineInputs machine = inputs_of(graph, 0);
  return candidates(collective, block_bytes(collective, 16 << 20, machine.inputs.ranks), machine.inputs).front();
}

}  // namespace tutti::select::four_hosts
