#include "control/paths.hpp"

#include <gtest/gtest.h>

namespace tutti::control {
namespace {

std::string names(const std::vector<transports::Path>& paths) {
  std::string all;
  for (const transports::Path& path : paths) all += (all.empty() ? "" : " ") + path.interface;
  return all;
}

NumaPath path(const char* name, int numa) { return {{name, {}, {}, 100e3}, numa}; }

TEST(Paths, AreSharedOutAmongTheRanksOfAHost) {
  const std::vector<NumaPath> four{path("a", -1), path("b", -1), path("c", -1), path("d", -1)};
  EXPECT_EQ(names(share_out(four, -1, {0, 1})), "a b c d");
  EXPECT_EQ(names(share_out(four, -1, {0, 2})), "a b");
  EXPECT_EQ(names(share_out(four, -1, {1, 2})), "c d");
  EXPECT_EQ(names(share_out(four, -1, {2, 3})), "c");
  EXPECT_EQ(names(share_out(four, -1, {5, 8})), "b");
  EXPECT_EQ(names(share_out({}, 0, {1, 2})), "");
}

TEST(Paths, OfANearInterfaceComeFirst) {
  const std::vector<NumaPath> four{path("a", 0), path("b", 0), path("c", 1), path("d", 1)};
  EXPECT_EQ(names(share_out(four, 1, {0, 1})), "c d");
  EXPECT_EQ(names(share_out(four, 1, {2, 4})), "c");
  EXPECT_EQ(names(share_out(four, 1, {3, 4})), "d");
  EXPECT_EQ(names(share_out(four, 2, {0, 1})), "a b c d") << "none is near";
}

TEST(Paths, LeadNowhereOnAHostWithItsOwnAddress) {
  EXPECT_TRUE(paths_to({}).empty());
  EXPECT_TRUE(paths_to({Address::loopback()}).empty());
  EXPECT_TRUE(paths_to(local_addresses()).empty()) << "the peer would be this host";
}

}  // namespace
}  // namespace tutti::control
