// The windows of rows.
#include "select/row.hpp"

#include <gtest/gtest.h>

namespace tutti::select {
namespace {

constexpr uint64_t kKiB = 1 << 10;

uint64_t rounds(const Row& row, uint64_t block) {
  const uint64_t window = window_for(row, block);
  return (block + window - 1) / window;
}

TEST(Row, MovesAllRoundsAboutAlike) {
  const Row row{.window = 100 * kKiB};
  EXPECT_EQ(rounds(row, 100 * kKiB), 1u);
  EXPECT_EQ(rounds(row, 101 * kKiB), 2u);
  EXPECT_LE(window_for(row, 101 * kKiB), 51 * kKiB) << "not 100 and 1";
}

TEST(Row, GivesEachReplicaAWindow) {
  for (const uint32_t width : {2, 3, 8}) {
    const Row row{.window = 1 << 20, .width = width};
    for (const uint64_t block : {64 * kKiB, 64 * kKiB + 4, 64 * kKiB + 132, 1000 * kKiB}) {
      EXPECT_EQ(rounds(row, block), width) << block << " bytes, width " << width;
    }
  }
}

TEST(Row, IsToldInWords) {
  EXPECT_EQ(sizes_text({.window = 1 << 20}, 4096), "one round");
  EXPECT_EQ(sizes_text({.window = 1 << 20, .width = 4}, 4 << 20), "rounds of 1M, width 4");
  EXPECT_EQ(deliveries_text({}), "all staged");
  EXPECT_EQ(deliveries_text({.address_from = 8192, .cma_from = 65536}), "zcopy from 8K, cma from 64K");
}

}  // namespace
}  // namespace tutti::select
