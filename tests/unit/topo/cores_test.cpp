#include "topo/cores.hpp"

#include <gtest/gtest.h>

#include "tutti/error.hpp"

namespace tutti {
namespace {

TEST(Cores, AreWrittenAsRangesAndReadBack) {
  EXPECT_EQ(to_text({}), "");
  EXPECT_EQ(to_text({0}), "0");
  EXPECT_EQ(to_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(to_text({1, 3, 5, 6}), "1,3,5-6");
  for (const Cores& cores : {Cores{}, Cores{7}, Cores{0, 1}, Cores{0, 1, 2, 3, 8}, Cores{1, 3, 5, 6, 65535}}) {
    EXPECT_EQ(parse_cores(to_text(cores)), cores);
  }
}

TEST(Cores, InvalidListsAreRefused) {
  for (const char* text :
       {"-", "x", "1,", "1,,2", "1-", "3-2", "2,1", "1,1", "1;2", "0-70000", "99999999999", "-1", "1-1"}) {
    EXPECT_THROW(parse_cores(text), Error) << text;
  }
}

TEST(Cores, ConfineAThread) {
  const Cores before = allowed_cores();
  const Cores last = {before.back()};
  run_on(affinity_mask(last));
  EXPECT_EQ(allowed_cores(), last);
  run_on(affinity_mask(before));
  EXPECT_EQ(allowed_cores(), before);
}

TEST(Cores, BeyondAWordHaveTheirBits) {
  const AffinityMask mask = affinity_mask({0, 63, 64, 1030});
  ASSERT_EQ(mask.size(), 17u);
  EXPECT_EQ(mask[0], 1UL << 63 | 1);
  EXPECT_EQ(mask[1], 1UL);
  EXPECT_EQ(mask[16], 1UL << 6);
}

TEST(Cores, AreAtLeastOneHere) { EXPECT_FALSE(allowed_cores().empty()); }

}  // namespace
}  // namespace tutti
