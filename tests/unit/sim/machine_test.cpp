#include "sim/machine.hpp"

#include <gtest/gtest.h>

#include "select/places.hpp"
#include "support/topologies.hpp"
#include "topo/cluster.hpp"

namespace tutti::sim {
namespace {

/// What a job knows of two hosts is shared by all messages between them, each way.
TEST(SimulatedMachine, TwoHostsHaveTheRateThatAJobKnows) {
  topo::Graph graph = topo::cluster(test::sample("nccl-8-gpus-8-nics.xml"), 2);
  const auto hosts = graph.all(topo::NodeKind::Host);
  graph.figures.push_back({.between = topo::Figure::Between::Hosts, .a = hosts[1], .b = hosts[0], .gbps = 3});
  Machine machine(graph, select::place_ranks(graph, 0).nodes, WorkCosts{});
  const auto cable = [&](Rank from, Rank to) { return machine.route(from, to).resources.back(); };
  EXPECT_EQ(machine.resources()[cable(0, 8)].rate, 3e9);
  EXPECT_EQ(cable(0, 8), cable(7, 9));
  EXPECT_NE(cable(0, 8), cable(8, 0));
  EXPECT_EQ(machine.resources()[cable(8, 0)].rate, 3e9);
  EXPECT_NE(machine.resources()[cable(0, 1)].rate, 3e9);
}

}  // namespace
}  // namespace tutti::sim
