#include "control/paths.hpp"

#include <gtest/gtest.h>

namespace tutti::control {
namespace {

TEST(Paths, AreSharedOutAmongTheRanksOfAHost) {
  const std::vector<NumaPath> two{{{"a", {}, {}, 100e3}, 0}, {{"b", {}, {}, 100e3}, 1}};
  EXPECT_EQ(share_out(two, -1, {0, 1}).size(), 2u);
  ASSERT_EQ(share_out(two, -1, {1, 2}).size(), 1u);
  EXPECT_EQ(share_out(two, -1, {1, 2}).front().interface, "b");
  EXPECT_EQ(share_out(two, 0, {1, 2}).front().interface, "a") << "it is near";
}

TEST(Paths, LeadNowhereOnAHostWithItsOwnAddress) {
  EXPECT_TRUE(paths_to({}).empty());
  EXPECT_TRUE(paths_to({Address::loopback()}).empty());
  EXPECT_TRUE(paths_to(local_addresses()).empty()) << "the peer would be this host";
}

}  // namespace
}  // namespace tutti::control
