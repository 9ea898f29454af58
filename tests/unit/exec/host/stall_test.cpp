// What a stalled call waits for, and where.
#include "exec/host/stall.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "exec/host/steps.hpp"
#include "plan/algorithm.hpp"
#include "support/exec_ranks.hpp"

namespace tutti::exec {
namespace {

constexpr uint32_t kSteps = 4000, kWidth = 4;

/// One rank of an all-reduce that is kWidth replicas wide.
struct WideRank {
  WideRank(Wires& wires, Rank rank) : connector(wires, rank), links(connector) {
    const plan::RankPlan plan =
        plan::generate(*plan::find_algorithm(Collective::AllReduce, "one_shot"), {Collective::AllReduce, 2}, rank);
    const Geometry geometry{.count = kSteps, .window = kSteps / kWidth, .element_bytes = 4, .width = kWidth};
    const Arithmetic sum{.fold = fold_function(DType::U32, Op::Sum), .element_bytes = 4};
    execution = std::make_unique<HostExecution>(lower(plan, geometry, PeerTraits(2)), 4, sum, links);
    execution->own_stages(links);
    EXPECT_TRUE(staging.assign(execution->stages()));
    for (const auto& replica : execution->replicas) {
      replica->bind({.in = in.data(), .out = out.data(), .tag = 42}, nullptr, links);
    }
  }
  bool step(uint32_t replica) { return exec::step(*execution->replicas[replica], *execution, false).done; }

  Wired connector;
  Links links;
  std::vector<unsigned char> memory = std::vector<unsigned char>(1 << 20);
  link::Arena arena{memory.data(), memory.size()};
  Staging staging{arena};
  std::unique_ptr<HostExecution> execution;
  std::vector<uint32_t> in = std::vector<uint32_t>(kSteps), out = in;
};

TEST(StallOf, AWideCallNamesTheReplicaThatWaits) {
  Wires wires;
  WideRank waits(wires, 0), other(wires, 1);
  ASSERT_EQ(waits.execution->replicas.size(), kWidth);
  for (const uint32_t done : {0, 1}) {  // the other rank has not begun the last two
    other.step(done);
    waits.step(done);
    ASSERT_TRUE(waits.step(done));
  }
  for (const uint32_t left : {2, 3}) ASSERT_FALSE(waits.step(left));
  const Stall stall = stall_of(*waits.execution);
  EXPECT_EQ(stall.peer, 1);
  EXPECT_EQ(stall.replica, 2u);
  EXPECT_EQ(stall.replicas, kWidth);
  EXPECT_EQ(stall.all.size(), 2u) << "a link of each of the last two";
}

}  // namespace
}  // namespace tutti::exec
