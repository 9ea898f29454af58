#include "topo/without.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

/// Two hosts of two GPUs on an NVSwitch, each with a core and a NIC in a network.
struct TwoHosts {
  TwoHosts() {
    fabric = graph.add({.kind = NodeKind::Fabric});
    for (int h = 0; h < 2; ++h) {
      hosts[h] = graph.add({.kind = NodeKind::Host, .name = "h"});
      cores[h] = graph.add({.kind = NodeKind::Core, .parent = hosts[h]});
      nvswitch[h] = graph.add({.kind = NodeKind::NvSwitch, .parent = hosts[h]});
      nics[h] = graph.add({.kind = NodeKind::Nic, .parent = hosts[h]});
      for (int g = 0; g < 2; ++g) {
        gpus[h][g] = graph.add({.kind = NodeKind::Gpu, .parent = hosts[h], .number = g});
        graph.connect({.a = gpus[h][g], .b = nvswitch[h], .kind = LinkKind::NvLink, .gbps = 100, .us = 1});
        graph.connect({.a = gpus[h][g], .b = nics[h], .kind = LinkKind::Pci, .gbps = 10, .us = 1});
        graph.ranks.push_back(gpus[h][g]);
      }
      graph.connect({.a = nics[h], .b = fabric, .kind = LinkKind::Network, .gbps = 5, .us = 1});
    }
    graph.figures.push_back({.between = Figure::Between::Hosts, .a = hosts[0], .b = hosts[1], .us = 1, .gbps = 1});
  }
  Graph graph;
  NodeId fabric, hosts[2], cores[2], nvswitch[2], nics[2], gpus[2][2];
};

TEST(Without, AGpuAndItsLinks) {
  const TwoHosts two;
  const Graph left = without_nodes(two.graph, {two.gpus[0][1]});
  check(left);
  EXPECT_EQ(left.nodes.size(), two.graph.nodes.size() - 1);
  EXPECT_EQ(left.links.size(), two.graph.links.size() - 2);
  EXPECT_EQ(left.all(NodeKind::Gpu).size(), 3U);
  EXPECT_TRUE(left.ranks.empty());    // one of them is gone
  EXPECT_TRUE(left.figures.empty());  // the job is another one
}

TEST(Without, AHostWhoseGpusAreAllGone) {
  const TwoHosts two;
  const Graph left = without_nodes(two.graph, {two.gpus[0][0], two.gpus[0][1]});
  check(left);
  EXPECT_EQ(left.all(NodeKind::Host).size(), 1U);
  EXPECT_EQ(left.links.size(), 5U);
}

TEST(Without, NothingChangesNothing) {
  const TwoHosts two;
  const Graph left = without_nodes(two.graph, {});
  EXPECT_EQ(hash_of(left), hash_of(two.graph));
  EXPECT_EQ(left.ranks, two.graph.ranks);
  EXPECT_EQ(left.figures.size(), 1U);
}

TEST(Without, ANicKeepsRanksAndFigures) {
  const TwoHosts two;
  const Graph left = without_nodes(two.graph, {two.nics[0]});
  check(left);
  EXPECT_EQ(left.ranks.size(), 4U);
  EXPECT_EQ(left.links.size(), two.graph.links.size() - 3);
  ASSERT_EQ(left.figures.size(), 1U);
  EXPECT_EQ(left.nodes[left.figures.front().b].kind, NodeKind::Host);
}

TEST(Without, WhatLiesInItGoesToo) {
  const TwoHosts two;
  const Graph left = without_nodes(two.graph, {two.hosts[1]});
  check(left);
  EXPECT_EQ(left.nodes.size(), 7U);
}

TEST(Without, PartsThatAreNamed) {
  const TwoHosts two;
  const Graph gpu = without_parts(two.graph, {"gpu:1/1"});
  EXPECT_EQ(gpu.all(NodeKind::Gpu).size(), 3U);
  EXPECT_EQ(gpu.nodes[gpu.all(NodeKind::Gpu)[1]].number, 1);  // host 0 has both
  EXPECT_EQ(without_parts(two.graph, {"nic:0"}).all(NodeKind::Nic).size(), 1U);
  const Graph link = without_parts(two.graph, {"link:0-NVSwitch", "link:1/1-NVSwitch"});
  EXPECT_EQ(link.links.size(), two.graph.links.size() - 2);
  EXPECT_EQ(link.nodes.size(), two.graph.nodes.size());
}

TEST(Without, RefusesWhatThereIsNot) {
  const TwoHosts two;
  for (const auto& [part, why] : {std::pair("gpu:7", "there are GPU 0, GPU 1"), std::pair("gpu:2/0", "2 hosts"),
                                  std::pair("nic:x", "there are NIC"), std::pair("link:0-1", "no link joins"),
                                  std::pair("link:0-9", "no two nodes"), std::pair("fan:0", "write gpu:N"),
                                  std::pair("", "write gpu:N"), std::pair("link:", "no two nodes")}) {
    try {
      without_parts(two.graph, {part});
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tutti::topo
