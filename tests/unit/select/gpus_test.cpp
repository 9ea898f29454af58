// Figures of links between GPUs: those that `tutti tune` has measured for the kind of a pair's path, and no other.
#include "select/gpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "select/decision_table.hpp"
#include "select/machine.hpp"
#include "select/pairs.hpp"
#include "topo/constants.hpp"
#include "topo/graph_json.hpp"

namespace tutti::select {
namespace {

using topo::LinkKind;
using topo::NodeKind;

/// Four GPUs at a host bridge, NVLink between 0 and 1, and between 2 and 3; a rank on each.
topo::Graph two_pairs() {
  topo::Graph graph;
  const topo::NodeId host = graph.add({.kind = NodeKind::Host});
  const topo::NodeId package = graph.add({.kind = NodeKind::Package, .parent = host, .number = 0});
  for (int i = 0; i < 4; ++i) {
    graph.ranks.push_back(graph.add({.kind = NodeKind::Gpu, .parent = package, .number = i}));
    graph.connect({.a = graph.ranks.back(), .b = package, .kind = LinkKind::Pci, .width = 16, .gbps = 24, .us = 0.5});
  }
  for (const int i : {0, 2}) {
    const auto a = graph.ranks[static_cast<size_t>(i)], b = graph.ranks[static_cast<size_t>(i) + 1];
    graph.connect({.a = a, .b = b, .kind = LinkKind::NvLink, .width = 4, .gbps = 100, .us = 0.3});
  }
  return graph;
}

Profile measured(std::map<std::string, MeasuredLink> links) {
  return {
      .gpus = MeasuredGpus{.models = {"NVIDIA H200"}, .driver = "580"}, .gpu_links = std::move(links), .measured = {}};
}

PairCost cost_of(const topo::Graph& graph, Rank a, Rank b) {
  return Pairs(graph, place_ranks(graph, 0)).from(a, {b}).front();
}

TEST(Gpus, FiguresOfAPathsKindStandAboveTheConstants) {
  topo::Graph graph = two_pairs();
  const Profile profile = measured({{"NVLink", {3e-6, 1e-11}}});
  graph.figures = figures_of_gpus(&profile);
  const PairCost near = cost_of(graph, 0, 1), far = cost_of(graph, 1, 2);
  EXPECT_EQ(near.path.kind, topo::PathKind::NvLink);
  EXPECT_DOUBLE_EQ(near.alpha, 3e-6);
  EXPECT_NEAR(near.beta, 1e-11, 1e-20);
  EXPECT_EQ(far.path.kind, topo::PathKind::HostBridge);
  EXPECT_NEAR(far.alpha, machine_constants().cuda_alpha + 1e-6, 1e-12) << "beside the links' own";
  EXPECT_NEAR(far.beta, 1 / 24e9, 1e-15);
}

TEST(Gpus, WithoutAProfileTheConstantsCount) {
  topo::Graph graph = two_pairs();
  graph.figures = figures_of_gpus(nullptr);
  EXPECT_NEAR(cost_of(graph, 0, 1).alpha, machine_constants().cuda_alpha + 0.3e-6, 1e-12);
}

TEST(Gpus, TheSlowestPairAndItsOriginAreTold) {
  topo::Graph graph = two_pairs();
  EXPECT_EQ(count_gpus(graph), 4u);
  const Profile profile = measured({{"NVLink", {3e-6, 1e-11}}, {"PCIe host bridge", {9e-6, 5e-11}}});
  graph.figures = figures_of_gpus(&profile);
  const MachineInputs made = inputs_of(topo::graph_of_json(topo::to_json(graph), "job"), 0);
  EXPECT_DOUBLE_EQ(made.inputs.inside.alpha, 9e-6);
  EXPECT_NEAR(made.inputs.inside.beta, 5e-11, 1e-20);
  EXPECT_EQ(made.notes.inside, "PCIe host bridge: cuda, measured by `tutti tune`");
  EXPECT_EQ(made.notes.over, "PCIe host bridge");
  const auto whole = std::find_if(made.inputs.methods.begin(), made.inputs.methods.end(),
                                  [](const UsableMethod& one) { return one.method == &exec::methods::ll128; });
  EXPECT_EQ(whole->why_not, "NVLink does not join all GPUs, so lines of 128 bytes may be torn");
  graph.figures = figures_of_gpus(nullptr);
  EXPECT_NE(inputs_of(graph, 0).notes.inside.find("constants, not measured here"), std::string::npos);
}

/// Lines order nothing but themselves. What a rank has put into a window before a barrier is read after it.
TEST(Gpus, BarriersDoNotTravelInLines) {
  const CostInputs inputs = inputs_of(two_pairs(), 0).inputs;
  EXPECT_EQ(DecisionTable(inputs).row(Collective::AllReduce, 8, {}).method, &exec::methods::ll);
  EXPECT_EQ(DecisionTable(inputs).row(Collective::Barrier, 0, {}).method, &exec::methods::slots);
}

}  // namespace
}  // namespace tutti::select
