#include "sim/machine.hpp"

#include <gtest/gtest.h>

#include "select/places.hpp"
#include "support/four_hosts.hpp"

namespace tutti::sim {
namespace {

/// What a job knows of two hosts is shared by all messages between them, each way.
TEST(SimulatedMachine, TwoHostsHaveTheRateThatAJobKnows) {
  topo::Graph graph = select::four_hosts::job(2);
  const auto hosts = graph.all(topo::NodeKind::Host);
  graph.figures.push_back({.between = topo::Figure::Between::Hosts, .a = hosts[1], .b = hosts[0], .gbps = 0.5});
  Machine machine(graph, select::place_ranks(graph, 0).nodes, {.copy = 1e-10});
  const auto last = [&](Rank from, Rank to) { return machine.route(from, to).resources.back(); };
  EXPECT_EQ(machine.resources()[last(0, 2)].rate, 0.5e9);
  EXPECT_EQ(last(0, 2), last(1, 3)) << "two ranks each";
  EXPECT_NE(last(0, 2), last(2, 0));
  EXPECT_EQ(machine.resources()[last(2, 0)].rate, 0.5e9);
  EXPECT_NE(machine.resources()[last(0, 4)].rate, 0.5e9) << "nothing is known of these hosts";
}

}  // namespace
}  // namespace tutti::sim
