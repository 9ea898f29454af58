#include "topo/nvlink.hpp"

#include <gtest/gtest.h>

#include "support/topologies.hpp"
#include "topo/cluster.hpp"
#include "topo/paths.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

using test::sample;

TEST(NvLink, ThatAFileLeavesOutIsNoted) {
  const Graph graph = sample("nccl-pcie-2-sockets.xml");
  ASSERT_EQ(graph.notes.size(), 1u);
  EXPECT_EQ(graph.notes[0].rfind("no NVLink between the 4 GPUs of ", 0), 0u) << graph.notes[0];
  EXPECT_NE(graph.notes[0].find("--nvlink"), std::string::npos);
  for (const char* const known : {"nccl-8-gpus-8-nics.xml", "nccl-nvlink-pairs.xml", "hwloc-2-sockets.xml"}) {
    for (const std::string& note : sample(known).notes) EXPECT_EQ(note.find("no NVLink between"), std::string::npos);
  }
}

TEST(NvLink, ThatIsAddedJoinsAllGpusOfAHost) {
  Graph graph = sample("nccl-pcie-2-sockets.xml");
  add_nvlink(graph, 300);
  EXPECT_TRUE(graph.notes.empty());
  const std::vector<NodeId> gpus = graph.all(NodeKind::Gpu);
  const PathFinder finder(graph);
  for (const NodeId a : gpus) {
    for (const NodeId b : gpus) {
      if (a == b) continue;
      const Path path = finder.between(a, b);
      EXPECT_EQ(path.kind, PathKind::NvSwitch);
      EXPECT_EQ(path.gbps, 300);
    }
  }
  Graph two = cluster(graph, 2);
  EXPECT_TRUE(two.notes.empty());
}

TEST(NvLink, IsNotAddedTwiceOrToNothing) {
  Graph known = sample("nccl-8-gpus-8-nics.xml");
  EXPECT_THROW(add_nvlink(known, 300), Error);
  Graph none = sample("hwloc-2-sockets.xml");
  if (none.all(NodeKind::Gpu).size() < 2) {
    EXPECT_THROW(add_nvlink(none, 300), Error);
  }
}

}  // namespace
}  // namespace tutti::topo
