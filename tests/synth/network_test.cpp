#include "synth/network.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "synth/bound.hpp"
#include "synth/machines.hpp"
#include "tutti/error.hpp"

namespace tutti::synth {
namespace {

TEST(Network, HasTheLinksThatMessagesUse) {
  Drawing drawing = one_switch(3, 100);
  const auto numa = drawing.node(topo::NodeKind::Numa);  // PCIe, which is slower: no path goes there
  for (const topo::NodeId gpu : drawing.ranks()) drawing.join(gpu, numa, 12, topo::LinkKind::Pci);
  const Network network = drawing.network();
  EXPECT_EQ(network.vertices, 4U);
  EXPECT_EQ(network.arcs.size(), 6U);
  EXPECT_EQ(network.unit, 100e9);  // the greatest unit of which all capacities are multiples
  EXPECT_EQ(network.arcs.front().capacity, 1);
}

TEST(Network, KnowsWhatMessagesPass) {
  const Network network = pcie_tree().network();
  ASSERT_EQ(network.vertices, 7U);
  EXPECT_EQ(network.inside[0].at(1).size(), 1U);
  EXPECT_EQ(network.inside[0].at(2).size(), 3U);
  const Vertex near = network.inside[0].at(1).front();
  EXPECT_TRUE(network.passes(0, near, 1));
  EXPECT_FALSE(network.passes(2, near, 3));
}

std::vector<topo::NodeId> nodes_on(const Network& network, Rank from, Rank to) {
  std::vector<topo::NodeId> nodes;
  for (const Vertex vertex : network.way(from, to)) nodes.push_back(network.nodes[vertex]);
  return nodes;
}

TEST(Network, HasACableWhereTwoHostsReachLessThanTheirPorts) {
  const Network network = cabled_hosts({{0, 3}, {1, 3}}).network();
  ASSERT_EQ(network.gates.size(), 4U);
  EXPECT_TRUE(network.exact);
  const std::vector<Vertex> way = network.way(0, 3);  // rank, bridge, NIC, gate, gate, NIC, bridge, rank
  ASSERT_EQ(way.size(), 8U);
  EXPECT_EQ(way[3], network.gates.at(0));
  EXPECT_EQ(way[4], network.gates.at(3));
  EXPECT_TRUE(network.passes(way[2], way[3], way[4]));
  EXPECT_FALSE(network.passes(network.gates.at(1), way[3], way[4])) << "a host's NICs do not pass on messages";
  EXPECT_TRUE(network.passes(0, way[3], 3));
  EXPECT_FALSE(network.passes(1, way[3], 3));
}

/// One pair is slower than the network that joins all.
TEST(Network, LeavesOtherPairsToTheNetwork) {
  Drawing drawing = hosts_with_ports({10, 10, 10});
  drawing.know(0, 1, 2), drawing.know(0, 2, 10), drawing.know(1, 2, 9.9);  // of the ports, but for noise
  const Network network = drawing.network();
  EXPECT_EQ(network.gates.size(), 2U);
  EXPECT_FALSE(network.exact);
  EXPECT_EQ(nodes_on(network, 0, 1).size(), 8U);
  EXPECT_EQ(nodes_on(network, 0, 2).size(), 8U) << "bridge, NIC, gate, network, NIC, bridge";
  const Vertex fabric = network.outside[2].back();
  EXPECT_FALSE(network.passes(0, fabric, 1));
  EXPECT_TRUE(network.passes(0, fabric, 2));
}

/// Of two NICs, a message takes one: what was measured between two ranks of the hosts is no limit of both together.
TEST(Network, HasNoCableWhereTwoHostsReachWhatAMessageCan) {
  Drawing drawing;
  const auto fabric = drawing.node(topo::NodeKind::Fabric);
  for (int host = 0; host < 2; ++host) {
    drawing.host();
    for (int i = 0; i < 2; ++i) {
      const auto bridge = drawing.star(1, 24, topo::NodeKind::Bridge), nic = drawing.node(topo::NodeKind::Nic);
      drawing.join(bridge, nic, 24, topo::LinkKind::Pci);
      drawing.join(nic, fabric, 12, topo::LinkKind::Network);
    }
  }
  drawing.know(0, 2, 12);
  EXPECT_TRUE(drawing.network().gates.empty());
  drawing = hosts_with_ports({12, 12});
  drawing.know(0, 1, 6);
  EXPECT_EQ(drawing.network().gates.size(), 2U);
}

/// Bytes a second from one vertex to the next on a rank's way to another, the least.
double rate(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks, Rank from, Rank to) {
  const Network network = network_at_most(graph, ranks);
  const std::vector<Vertex> way = network.way(from, to);
  Capacity least = std::numeric_limits<Capacity>::max();
  for (size_t i = 0; i + 1 < way.size(); ++i) {
    for (const Arc& arc : network.arcs) {
      if (arc.from == way[i] && arc.to == way[i + 1]) least = std::min(least, arc.capacity);
    }
  }
  return static_cast<double>(least) * network.unit;
}

TEST(Network, HasAtMostWhatAJobHasSeen) {
  const Drawing drawing = hosts_with_ports({12, 12, 12}, 2);
  const auto& ranks = drawing.ranks();
  topo::Graph graph = drawing.graph();
  EXPECT_TRUE(network_at_most(graph, ranks).exact);
  EXPECT_EQ(network_at_most(graph, ranks).origins, std::vector<std::string>{"published"});
  using Between = topo::Figure::Between;
  graph.figures = {{.between = Between::Processes, .gbps = 150, .over = "PCIe switch", .origin = "seen"},
                   {.between = Between::Processes, .gbps = 700, .over = "NVLink", .origin = "of another kind"},
                   {.between = Between::Threads, .gbps = 800, .origin = "there are no threads"},
                   {.between = Between::Hosts, .gbps = 14, .origin = "between any two"}};
  EXPECT_DOUBLE_EQ(rate(graph, ranks, 0, 1), 150e9);
  EXPECT_DOUBLE_EQ(rate(graph, ranks, 0, 2), 14e9);
  EXPECT_FALSE(network_at_most(graph, ranks).exact) << "it is not sure that they can all carry that";
  EXPECT_EQ(network_of(graph, ranks).unit, drawing.network().unit) << "plans are made with the rates that are known";
  graph.processes = {0, 0, 1, 1, 2, 2};
  EXPECT_DOUBLE_EQ(rate(graph, ranks, 0, 1), 800e9);
}

TEST(Network, OfAMeasuredLinkTheJobsFiguresSayNothing) {
  Drawing drawing = hosts_with_ports({12, 12});
  topo::Graph graph = drawing.graph();
  for (topo::Link& link : graph.links) {
    if (link.kind == topo::LinkKind::Network) link.measured = true, link.gbps = 3, link.most = 3.25;
  }
  graph.figures = {{.between = topo::Figure::Between::Hosts, .gbps = 14, .origin = "between any two"}};
  EXPECT_DOUBLE_EQ(rate(graph, drawing.ranks(), 0, 1), 3.25e9) << "that of links alike";
  const topo::NodeId a = graph.host_of(drawing.ranks()[0]), b = graph.host_of(drawing.ranks()[1]);
  graph.figures.push_back({.between = topo::Figure::Between::Hosts, .a = a, .b = b, .gbps = 4, .most = 4.5});
  EXPECT_DOUBLE_EQ(rate(graph, drawing.ranks(), 0, 1), 4.5e9) << "but what was measured of these two hosts";
}

void expect_refused(const topo::Graph& graph, const std::vector<topo::NodeId>& ranks, const std::string& why) {
  try {
    network_of(graph, ranks);
    ADD_FAILURE() << "accepted, in spite of: " << why;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

TEST(Network, RefusesBadInput) {
  Drawing drawing = ring(3, 10);
  const auto& ranks = drawing.ranks();
  expect_refused(drawing.graph(), {}, "from 1 to 512");
  expect_refused(drawing.graph(), {ranks[0], ranks[0]}, "share GPU 0");
  expect_refused(drawing.graph(), {ranks[0], 77}, "on no node");
  expect_refused(drawing.graph(), {ranks[0], 0}, "rank 1 is on host");
  expect_refused(ring(3, 1e7).graph(), ranks, "has 10000000 GB/s");
  expect_refused(ring(3, 1e-9).graph(), ranks, "has 1e-09 GB/s");
  expect_refused(ring(600, 1).graph(), ring(600, 1).ranks(), "from 1 to 512");
}

}  // namespace
}  // namespace tutti::synth
