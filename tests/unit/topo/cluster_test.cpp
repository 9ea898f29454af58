#include "topo/cluster.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/topologies.hpp"
#include "topo/paths.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

using test::sample;

TEST(Cluster, NumbersHostsAndRanks) {
  const Graph one = sample("nccl-hidden-nvswitch.xml");
  const Graph graph = cluster(one, 4);
  EXPECT_EQ(graph.all(NodeKind::Host).size(), 4u);
  EXPECT_EQ(graph.nodes[graph.all(NodeKind::Host)[3]].name, "host 3");
  ASSERT_EQ(graph.ranks.size(), 8u);
  EXPECT_EQ(graph.nodes[graph.ranks[6]].address, one.nodes[one.ranks[0]].address);
  EXPECT_EQ(graph.all(NodeKind::Fabric).size(), 1u);
  check(graph);
}

TEST(Cluster, OfOneHostIsThatHost) {
  const Graph one = sample("nccl-hidden-nvswitch.xml");
  EXPECT_EQ(hash_of(cluster(one, 1)), hash_of(one));
}

TEST(Cluster, OfAClusterHasOneNetwork) {
  const Graph graph = cluster(cluster(sample("nccl-hidden-nvswitch.xml"), 2), 2);
  EXPECT_EQ(graph.all(NodeKind::Fabric).size(), 1u);
  EXPECT_EQ(graph.all(NodeKind::Host).size(), 4u);
  EXPECT_EQ(PathFinder(graph).between(graph.ranks[0], graph.ranks[7]).kind, PathKind::Network);
}

TEST(Cluster, IsBounded) { EXPECT_THROW(cluster(sample("hwloc-2-sockets.xml"), 1 << 20), Error); }

TEST(MergeRanks, PutsEachRankOnTheSmallestPartItCannotLeave) {
  const std::array parts{sample("hwloc-2-sockets.xml"), sample("nccl-pcie-2-sockets.xml")};
  const std::vector<RankPlace> places{{0, {3}}, {0, {0, 1}}, {0, {0, 3}}, {0, {0, 7}}, {0, {}}, {1, {3, 4}}};
  const Graph graph = merge_ranks(parts, places);
  std::vector<std::string> labels;
  for (const NodeId node : graph.ranks) labels.push_back(label(graph, node));
  EXPECT_EQ(labels, (std::vector<std::string>{"core 3", "core complex 0-1", "NUMA node 0", "two-sockets", "two-sockets",
                                              "NUMA node 0"}));
  EXPECT_NE(graph.host_of(graph.ranks[2]), graph.host_of(graph.ranks[5]));
  EXPECT_EQ(PathFinder(graph).between(graph.ranks[0], graph.ranks[5]).kind, PathKind::Network);
}

TEST(MergeRanks, RefusesRanksOfNoHost) {
  const std::array parts{sample("hwloc-2-sockets.xml")};
  const std::vector<RankPlace> places{{1, {0}}};
  EXPECT_THROW(merge_ranks(parts, places), Error);
}

}  // namespace
}  // namespace tutti::topo
