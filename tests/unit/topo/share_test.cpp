#include "topo/share.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "topo/cores.hpp"

namespace tutti::topo {
namespace {

using Indices = std::vector<size_t>;

TEST(ShareOut, DividesInterfacesAmongTheRanksOfAHost) {
  const std::vector<int> four(4, -1);
  EXPECT_EQ(share_out(four, -1, {0, 1}), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(share_out(four, -1, {0, 2}), (Indices{0, 1}));
  EXPECT_EQ(share_out(four, -1, {1, 2}), (Indices{2, 3}));
  EXPECT_EQ(share_out(four, -1, {2, 3}), (Indices{2}));
  EXPECT_EQ(share_out(four, -1, {5, 8}), (Indices{1}));
  EXPECT_EQ(share_out({}, 0, {1, 2}), Indices{});
}

TEST(ShareOut, LeavesOutInterfacesFarFromTheRanksCores) {
  EXPECT_EQ(share_out({0, 0, 1, 1}, 1, {0, 1}), (Indices{2, 3}));
  EXPECT_EQ(share_out({0, 0, 1, 1}, 1, {2, 4}), (Indices{2}));
  EXPECT_EQ(share_out({0, 0, 1, 1}, 1, {3, 4}), (Indices{3}));
  EXPECT_EQ(share_out({0, 0, 1, 1}, 2, {0, 1}), (Indices{0, 1, 2, 3})) << "none is near";
}

TEST(NumaNode, IsTheOneThatHasAllCores) {
  const std::filesystem::path root = testing::TempDir() + "/tutti-share-test";
  for (const auto& [node, list] : {std::pair{"node0", "0-3"}, {"node1", "4-7"}}) {
    std::filesystem::create_directories(root / "sys/devices/system/node" / node);
    std::ofstream(root / "sys/devices/system/node" / node / "cpulist") << list << "\n";
  }
  EXPECT_EQ(numa_node_of({1, 2}, root), 0);
  EXPECT_EQ(numa_node_of({4, 5, 6, 7}, root), 1);
  EXPECT_EQ(numa_node_of({3, 4}, root), -1);
  EXPECT_EQ(numa_node_of({0}, root / "nothing"), -1);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace tutti::topo
