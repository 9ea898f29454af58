#include "topo/paths.hpp"

#include <gtest/gtest.h>

#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "topo/link_figures.hpp"

namespace tutti::topo {
namespace {

using test::node_called;
using test::sample;

Path path(const Graph& graph, const std::string& a, const std::string& b) {
  return PathFinder(graph).between(node_called(graph, a), node_called(graph, b));
}

TEST(Paths, BetweenCoresGoThroughWhatTheyShare) {
  const Graph graph = sample("hwloc-2-sockets.xml");
  EXPECT_EQ(path(graph, "core 0", "core 0").kind, PathKind::SameCore);
  EXPECT_EQ(path(graph, "core 0", "core 1").kind, PathKind::Complex);
  EXPECT_EQ(path(graph, "core 0", "core 2").kind, PathKind::Package);
  EXPECT_EQ(path(graph, "core 0", "core 4").kind, PathKind::Sockets);
}

/// They are not two threads of a core: messages between them go through the GPU's memory.
TEST(Paths, OfRanksThatShareAGpuHaveItsBandwidth) {
  const Graph graph = sample("nccl-8-gpus-8-nics.xml");
  const NodeId gpu = graph.all(NodeKind::Gpu).front();
  const Path shared = PathFinder(graph).between(gpu, gpu);
  EXPECT_EQ(shared.kind, PathKind::SameGpu);
  EXPECT_STREQ(name_of(shared.kind), "same GPU");
  EXPECT_GT(shared.gbps, PathFinder(graph).between(gpu, graph.all(NodeKind::Gpu).back()).gbps);
}

TEST(Paths, BetweenCoresAddUpToThePublishedTimesOfACacheLine) {
  const Graph graph = sample("hwloc-2-sockets.xml");
  EXPECT_NEAR(path(graph, "core 0", "core 1").us, 0.023, 1e-9);
  EXPECT_NEAR(path(graph, "core 0", "core 2").us, 0.107, 1e-9);
  EXPECT_NEAR(path(graph, "core 0", "core 4").us, 0.197, 1e-9);
  EXPECT_EQ(path(graph, "core 0", "core 4").gbps, figures::socket_amd.gbps);
}

TEST(Paths, OfRanksOnSeveralCoresAreThoseOfCoresFarApart) {
  const Graph graph = sample("hwloc-2-sockets.xml");
  const PathFinder finder(graph);
  const NodeId package = node_called(graph, "package 0");
  EXPECT_EQ(finder.between(package, package).kind, PathKind::Package);
  EXPECT_EQ(finder.between(0, 0).kind, PathKind::Sockets);
  EXPECT_EQ(finder.between(package, node_called(graph, "core complex 0-1")).kind, PathKind::Complex);
}

TEST(Paths, BetweenDevicesMeetAtASwitchABridgeOrTheSocketsLink) {
  const Graph graph = sample("nccl-pcie-2-sockets.xml");
  const Path near = path(graph, "GPU 0", "GPU 1");
  EXPECT_EQ(near.kind, PathKind::PciSwitch);
  EXPECT_DOUBLE_EQ(near.gbps, 12);  // GPU 1 has 8 lanes
  EXPECT_EQ(near.links.size(), 2u);
  const Path bridge = path(graph, "GPU 0", "GPU 2");
  EXPECT_EQ(bridge.kind, PathKind::HostBridge);
  EXPECT_DOUBLE_EQ(bridge.gbps, 24);
  const Path far = path(graph, "GPU 0", "GPU 3");
  EXPECT_EQ(far.kind, PathKind::Sockets);
  EXPECT_DOUBLE_EQ(far.gbps, figures::socket_intel_skylake.gbps);
  EXPECT_EQ(path(graph, "GPU 0", "NIC 0000:13:00.0").kind, PathKind::PciSwitch);
  EXPECT_EQ(path(graph, "GPU 0", "NUMA node 0").kind, PathKind::HostBridge);
}

TEST(Paths, TakeNvlinksAndNoGpuForwards) {
  const Graph graph = sample("nccl-nvlink-pairs.xml");
  const Path direct = path(graph, "GPU 0", "GPU 1");
  EXPECT_EQ(direct.kind, PathKind::NvLink);
  EXPECT_DOUBLE_EQ(direct.gbps, 2 * figures::nvlink_sm70.gbps);
  EXPECT_EQ(path(graph, "GPU 1", "GPU 2").kind, PathKind::HostBridge);
  EXPECT_EQ(path(graph, "GPU 0", "NUMA node 0").kind, PathKind::NvLink);      // 3 NVLinks to the processor
  EXPECT_EQ(path(graph, "GPU 1", "NUMA node 0").kind, PathKind::HostBridge);  // through GPU 0 it would be wider
}

TEST(Paths, GoThroughAllNvSwitchesTogether) {
  const Graph graph = sample("nccl-hidden-nvswitch.xml");
  const Path both = path(graph, "GPU 0", "GPU 1");
  EXPECT_EQ(both.kind, PathKind::NvSwitch);
  EXPECT_NEAR(both.gbps, 371, 1);  // as nccl#1264 measures
  EXPECT_NEAR(both.us, 0.6, 1e-9);
}

TEST(Paths, BetweenHostsTakeTheNetworkAndInsideThemNever) {
  Graph one = sample("nccl-pcie-2-sockets.xml");
  one.nodes[node_called(one, "NIC eth0")].port = 12;
  const Graph graph = cluster(one, 2);
  ASSERT_EQ(graph.ranks.size(), 8u);
  const PathFinder finder(graph);
  const std::vector<Path> paths = finder.from(graph.ranks[0], graph.ranks);
  EXPECT_EQ(paths[3].kind, PathKind::Sockets);  // the network would be wider: 12 GB/s
  EXPECT_EQ(paths[4].kind, PathKind::Network);
  EXPECT_DOUBLE_EQ(paths[4].gbps, figures::port_unknown.gbps);
  EXPECT_NEAR(paths[4].us, 2.7, 1e-9);
  EXPECT_EQ(paths[4].links.size(), 6u);  // the NIC behind the same switch, at both ends
  for (size_t to = 0; to < paths.size(); ++to) {
    const Path alone = finder.between(graph.ranks[0], graph.ranks[to]);
    EXPECT_EQ(alone.links, paths[to].links) << to;
  }
}

TEST(Paths, MayBeMissing) {
  Graph graph;
  const NodeId host = graph.add({.kind = NodeKind::Host}), other = graph.add({.kind = NodeKind::Host});
  const NodeId a = graph.add({.kind = NodeKind::Gpu, .parent = host});
  const NodeId b = graph.add({.kind = NodeKind::Gpu, .parent = other});
  EXPECT_EQ(PathFinder(graph).between(a, b).kind, PathKind::None);
}

TEST(Paths, AreTheSameInBothDirections) {
  const Graph graph = cluster(sample("hwloc-2-sockets.xml"), 2);
  const PathFinder finder(graph);
  std::vector<NodeId> ends = graph.all(NodeKind::Core);
  const std::vector<NodeId> gpus = graph.all(NodeKind::Gpu);
  ends.insert(ends.end(), gpus.begin(), gpus.end());
  for (const NodeId a : ends) {
    const std::vector<Path> there = finder.from(a, ends);
    for (size_t i = 0; i < ends.size(); ++i) {
      const Path back = finder.between(ends[i], a);
      EXPECT_EQ(back.kind, there[i].kind);
      EXPECT_EQ(back.gbps, there[i].gbps);
      EXPECT_NEAR(back.us, there[i].us, 1e-12);
    }
  }
}

}  // namespace
}  // namespace tutti::topo
