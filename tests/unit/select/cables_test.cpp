// Hosts that cables of their own join: what is concluded from measurements, and how rows follow.
#include <gtest/gtest.h>

#include <map>

#include "support/four_hosts.hpp"

namespace tutti::select {
namespace {

using namespace four_hosts;

/// What would be measured where a cable joins any two hosts, and these are slow.
MeasuredHosts meshed(const std::map<HostPair, double>& slow) {
  std::vector<std::vector<double>> betas;
  std::vector<MeasuredPair> pairs;
  std::vector<double> rates(kNames.size()), at_once;
  for (const auto& round : round_robin(kNames.size())) {
    betas.emplace_back();
    for (const HostPair& pair : round) {
      const auto found = slow.find(pair);
      const double rate = found == slow.end() ? kFast : found->second;
      betas.back().push_back(1 / rate);
      pairs.push_back({kNames.at(pair.first), kNames.at(pair.second), 20e-6, 1 / rate});
      rates[pair.first] += rate, rates[pair.second] += rate;
    }
  }
  for (const double rate : rates) at_once.push_back(1 / rate);
  MeasuredHosts hosts = wiring_of(kNames, std::move(pairs), betas, at_once);
  hosts.transport = "tcp";
  return hosts;
}

const MeasuredHosts kMesh = meshed({}), kSlowCables = meshed({{{0, 2}, kSlow}, {{0, 3}, kSlow}});

TEST(Wiring, OfCablesHasNoIslands) {
  EXPECT_TRUE(kMesh.islands.empty());
  EXPECT_TRUE(kSlowCables.islands.empty()) << "host 0 is near host 1 alone, but shares no link with it";
  EXPECT_DOUBLE_EQ(1 / kMesh.links.at("host3"), 3 * kFast);
  EXPECT_DOUBLE_EQ(1 / kSlowCables.links.at("host0"), kFast + 2 * kSlow);
}

TEST(Network, CablesHaveRatesOfTheirOwnAndWorkAtTheSameTime) {
  const Candidate even = best(with(kMesh), Collective::AllGather),
                  slow = best(with(kSlowCables), Collective::AllGather);
  const double block = 4 << 20;
  EXPECT_NEAR(even.seconds, block / kFast, 0.002) << "each of a host's cables carries a block";
  EXPECT_NEAR(slow.seconds, block / kSlow, 0.002) << "those of a slow cable do not hold up others";
  EXPECT_NE(slow.where.find("host0 – host"), std::string::npos) << slow.where;
}

TEST(Network, SlowCablesAreNamed) {
  EXPECT_TRUE(lines_of(kMesh).empty());
  EXPECT_TRUE(inputs_of(with(kMesh), 0).notes.links.empty());
  std::vector<std::string> lines = lines_of(kSlowCables);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{"link host0 – host2: 25 MB/s", "link host0 – host3: 25 MB/s",
                                             "link host0: 150 MB/s", "link host2: 225 MB/s", "link host3: 225 MB/s"}));
  std::vector<std::string> noted = inputs_of(with(kSlowCables), 0).notes.links;
  std::sort(noted.begin(), noted.end());
  for (std::string& line : lines) line += ", measured by `tutti tune`";
  EXPECT_EQ(noted, lines);
}

/// Of what a host reaches with all others, some is lost to noise.
TEST(Network, AHostIsNotSlowerThanItsCablesAddUpTo) {
  MeasuredHosts hosts = kMesh;
  for (auto& [host, beta] : hosts.links) beta *= 1.1;
  const topo::Graph graph = with(hosts);
  for (const topo::Link& link : graph.links) {
    if (link.measured) {
      EXPECT_NEAR(link.gbps, 3 * kFast * 1e-9, 1e-6);
    }
  }
}

/// Three ports of 1 Gb/s: a path has one of them, which stands for all.
TEST(Network, SeveralPortsWorkTogetherWhereTheHostReachesMore) {
  topo::Graph graph = job();
  const auto port = std::find_if(graph.links.begin(), graph.links.end(),
                                 [](const topo::Link& link) { return link.kind == topo::LinkKind::Network; });
  const topo::NodeId fabric = graph.nodes[port->a].kind == NodeKind::Fabric ? port->a : port->b;
  const topo::NodeId host = graph.all(NodeKind::Host).front();
  const topo::NodeId nic = graph.add({.kind = NodeKind::Nic, .parent = host, .name = "eth1", .port = 0.1});
  graph.connect({.a = nic, .b = fabric, .kind = topo::LinkKind::Network, .gbps = 0.1});
  add_measured_hosts(graph, kMesh);
  EXPECT_NEAR(graph.links.back().gbps, 3 * kFast * 1e-9, 1e-6);
}

}  // namespace
}  // namespace tutti::select
