#include "synth/synthesize.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "plan/verify.hpp"
#include "support/topologies.hpp"
#include "synth/machines.hpp"
#include "topo/cluster.hpp"
#include "topo/nvlink.hpp"
#include "tutti/error.hpp"

namespace tutti::synth {
namespace {

constexpr Collective kAll[] = {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce,
                               Collective::Broadcast, Collective::Reduce};

/// Each tree reaches all ranks, as many start at each rank as were demanded, and no arc carries more than it can.
void expect_fits(const std::vector<Tree>& trees, const Network& network, const Demand& demand) {
  std::map<std::pair<Rank, Rank>, Capacity> left;
  for (const Arc& arc : network.arcs) left[{static_cast<Rank>(arc.from), static_cast<Rank>(arc.to)}] = arc.capacity;
  Demand started(demand.size());
  for (const Tree& tree : trees) {
    started[static_cast<size_t>(tree.root)] += tree.copies;
    ASSERT_EQ(tree.order.size(), demand.size());
    std::vector<bool> reached(demand.size());
    for (const Rank rank : tree.order) {
      const Rank parent = tree.parents[static_cast<size_t>(rank)];
      ASSERT_EQ(parent == kNoRank, rank == tree.root);
      ASSERT_FALSE(reached[static_cast<size_t>(rank)]);
      reached[static_cast<size_t>(rank)] = true;
      if (parent == kNoRank) continue;
      ASSERT_TRUE(reached[static_cast<size_t>(parent)]);
      left[{parent, rank}] -= tree.copies;
      ASSERT_GE((left[{parent, rank}]), 0);
    }
  }
  EXPECT_EQ(started, demand);
}

/// At the rate of the bound exactly: in `blocks` units of time every arc carries `blocks` times its capacity, and each
/// rank starts as many trees as its block has parts then.
void expect_packed_at_the_bound(Network network, const std::vector<int64_t>& weights) {
  const Ratio bound = tightest_cut(network, weights).must;
  for (Arc& arc : network.arcs) arc.capacity *= bound.blocks;
  Demand demand = weights;
  for (int64_t& trees : demand) trees *= bound.capacity;
  ASSERT_TRUE(supports(network, demand));
  const Network direct = without_switches(network, demand);
  ASSERT_EQ(direct.vertices, static_cast<uint32_t>(network.ranks));
  expect_fits(pack(direct, demand), direct, demand);
  for (size_t rank = 0; rank < demand.size(); ++rank) demand[rank] += weights[rank];  // one tree more is too much
  EXPECT_FALSE(supports(network, demand));
}

TEST(Packing, ReachesTheBoundOfRandomNetworks) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const Network network = random_network(seed);
    expect_packed_at_the_bound(network, weights_of(Collective::AllGather, network.ranks));
    expect_packed_at_the_bound(network, weights_of(Collective::Broadcast, network.ranks));
  }
}

TEST(Packing, ReachesTheBoundOfDrawnMachines) {
  for (const Drawing& drawing : {ring(5, 10), line({10, 5, 20}), one_switch(6, 100), two_islands(), pcie_tree(),
                                 hypercube(3, 20), full_mesh(5, 10), uneven_hosts()}) {
    const Network network = drawing.network();
    expect_packed_at_the_bound(network, weights_of(Collective::AllGather, network.ranks));
    expect_packed_at_the_bound(network, weights_of(Collective::Broadcast, network.ranks));
  }
}

TEST(Packing, RemovesSwitchesInAnyOrder) {
  Network network = pcie_hosts(4).network();  // 32 ranks, whose switches no pattern fits
  const Ratio bound = tightest_cut(network, Demand(32, 1)).must;
  for (Arc& arc : network.arcs) arc.capacity = std::min<Capacity>(32, arc.capacity * bound.blocks / bound.capacity);
  ASSERT_TRUE(supports(network, Demand(32, 1)));
  for (unsigned attempt = 0; attempt < 3; ++attempt) {
    Pattern pattern{};
    const Network direct = without_switches(network, Demand(32, 1), attempt, &pattern);
    EXPECT_EQ(pattern, Pattern::Exact);
    EXPECT_TRUE(supports(direct, Demand(32, 1)));
  }
}

TEST(Packing, RefusesMoreThanFits) {
  const Network network = ring(4, 10).network();
  EXPECT_THROW(pack(network, Demand(4, 1)), Error);  // one unit a direction: two trees enter a rank, of three
  EXPECT_THROW(pack(one_switch(3, 1).network(), Demand(3, 1)), Error);  // a switch
}

void expect_proven(const Network& network, const std::string& what) {
  for (const Collective collective : kAll) {
    const Synthesis made = synthesize(network, collective);
    const plan::Verdict verdict = plan::verify(plans_of(made), {.capacity = 1});
    EXPECT_TRUE(verdict) << what << ", " << name_of(collective) << ": " << verdict.reason;
    EXPECT_GT(made.reached, 0.9) << what << ", " << name_of(collective);
    EXPECT_LE(made.reached, 1.0);
  }
}

TEST(Synthesize, PlansOfDrawnMachinesAreProven) {
  expect_proven(ring(5, 10).network(), "ring");
  expect_proven(line({10, 5, 20}).network(), "line");
  expect_proven(one_switch(7, 100).network(), "switch");
  expect_proven(two_islands().network(), "islands");
  expect_proven(pcie_tree().network(), "tree");
  expect_proven(hypercube(3, 20).network(), "hypercube");
  expect_proven(uneven_hosts().network(), "uneven hosts");
  expect_proven(cabled_hosts({{0, 3}, {1, 3}}).network(), "hosts with cables");
  expect_proven(cabled_hosts({{0, 3}}, 2).network(), "hosts with cables and two GPUs each");
  expect_proven(one_switch(2, 3).network(), "two");
  expect_proven(one_switch(1, 3).network(), "one");
}

TEST(Synthesize, PlansOfRandomNetworksAreProven) {
  for (unsigned seed = 1000; seed < 1020; ++seed) {
    const Network network = random_network(seed);
    for (const Collective collective : kAll) {
      const plan::Verdict verdict = plan::verify(plans_of(synthesize(network, collective)), {.capacity = 1});
      EXPECT_TRUE(verdict) << seed << ", " << name_of(collective) << ": " << verdict.reason;
    }
  }
}

/// The network joins all hosts, but two of them with less than their ports have: their blocks go by way of others.
TEST(Synthesize, TreesAvoidASlowCable) {
  Drawing drawing = hosts_with_ports({10, 10, 10, 10});
  drawing.know(0, 1, 2);
  EXPECT_GE(synthesize(drawing.network(), Collective::AllGather).reached, 0.97);
}

/// GPUs, else cores.
std::vector<topo::NodeId> ends_of(const topo::Graph& graph) {
  const auto gpus = graph.all(topo::NodeKind::Gpu);
  return gpus.empty() ? graph.all(topo::NodeKind::Core) : gpus;
}

TEST(Synthesize, PlansOfFilesAreProven) {
  std::vector<std::string> files;
  for (const char* folder : {TUTTI_SOURCE_DIR "/tests/topologies", TUTTI_SOURCE_DIR "/../shared/topologies"}) {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder, none)) {
      if (file.path().extension() != ".md") files.push_back(file.path());
    }
  }
  ASSERT_GE(files.size(), 6U);
  for (const std::string& file : files) {
    const topo::Graph graph = topo::import_file(file);
    if (graph.all(topo::NodeKind::Host).size() > 1) continue;
    const std::vector<topo::NodeId> ends = ends_of(graph);
    if (ends.size() < 2 || ends.size() > 16) continue;
    expect_proven(network_of(graph, ends), file);
  }
}

TEST(Synthesize, AnySubsetOfRanks) {
  const topo::Graph graph = test::sample("nccl-8-gpus-8-nics.xml");
  const auto gpus = graph.all(topo::NodeKind::Gpu);
  expect_proven(network_of(graph, std::vector{gpus[0], gpus[2], gpus[3], gpus[5]}), "0,2,3,5");
  expect_proven(network_of(graph, std::vector{gpus[7], gpus[1], gpus[4]}), "7,1,4");
}

/// Ranks 2 and 3 are behind the slow link: from there, all but one rank are on its other side.
TEST(Synthesize, ForEachRoot) {
  const Network network = line({10, 5, 20}).network();
  for (const Collective collective : {Collective::Broadcast, Collective::Reduce}) {
    for (Rank root = 0; root < 4; ++root) {
      const Synthesis made = synthesize(network, collective, {.root = root});
      for (const Tree& tree : made.trees) EXPECT_EQ(tree.root, root);
      const std::vector<plan::RankPlan> plans = plans_of(made);
      const plan::Verdict verdict = plan::verify(plans, {.capacity = 1});
      EXPECT_TRUE(verdict) << root << ", " << name_of(collective) << ": " << verdict.reason;
      // Plans count from the root. Neighbours of the line are the only ranks that exchange messages.
      for (Rank me = 0; me < 4; ++me) {
        for (const Rank peer : plans[static_cast<size_t>(me)].peers) {
          EXPECT_EQ(std::abs((me + root) % 4 - (peer + root) % 4), 1) << root << ": " << me << " to " << peer;
        }
      }
    }
  }
  EXPECT_THROW(synthesize(network, Collective::Broadcast, {.root = 4}), Error);
  EXPECT_THROW(synthesize(network, Collective::AllGather, {.root = 1}), Error);
}

/// Of a switch with eight ports: not a chain, but trees of two levels.
TEST(Synthesize, FlatTreesWhereTheyAreAsGood) {
  for (const Collective collective : {Collective::Broadcast, Collective::Reduce}) {
    const Synthesis made = synthesize(one_switch(8, 100).network(), collective);
    EXPECT_EQ(made.depth(), 2);
    EXPECT_EQ(made.reached, 1);
  }
}

/// Four GPUs on a chain of so many PCIe switches, at its ends and in between.
Drawing chain_of_switches(int count) {
  Drawing drawing;
  const auto gpus = drawing.gpus(4);
  topo::NodeId before = topo::kNoNode;
  for (int i = 0; i < count; ++i) {
    const topo::NodeId bridge = drawing.node(topo::NodeKind::Bridge);
    if (before != topo::kNoNode) drawing.join(before, bridge, 20, topo::LinkKind::Pci);
    if (i % ((count - 1) / 3) == 0) {
      drawing.join(gpus.at(static_cast<size_t>(i / ((count - 1) / 3))), bridge, 24, topo::LinkKind::Pci);
    }
    before = bridge;
  }
  return drawing;
}

TEST(Synthesize, TenThousandNodesBetweenTheRanks) {
  const Drawing drawing = chain_of_switches(9994);
  ASSERT_GE(drawing.network().vertices, 9998U);
  const Synthesis made = synthesize(drawing.network(), Collective::AllGather);
  EXPECT_DOUBLE_EQ(made.fitted, 1);
  EXPECT_TRUE(plan::verify(plans_of(made)));
  try {
    chain_of_switches(static_cast<int>(kMaxVertices) + 1).network();
    ADD_FAILURE() << "there is a limit";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("more than 16384 nodes"), std::string::npos) << error.what();
  }
}

TEST(Synthesize, RefusesAllToAll) { EXPECT_THROW(synthesize(ring(4, 1).network(), Collective::AllToAll), Error); }

}  // namespace
}  // namespace tutti::synth
