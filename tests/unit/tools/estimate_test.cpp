#include "tools/perf/estimate.hpp"

#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

TEST(Estimate, KnowsNothingBeforeTheFirstMeasurement) { EXPECT_FALSE(Estimate({8, 8}).left()); }

TEST(Estimate, UsesTheTimesOfMeasuredSizes) {
  Estimate estimate({8, 8, 64, 64, 8});
  estimate.done(1);
  EXPECT_EQ(estimate.left(), 4);  // the time per byte is not known yet
  estimate.done(1);
  estimate.done(5);
  EXPECT_EQ(estimate.left(), 5 + 1);
  estimate.done(5);
  estimate.done(1);
  EXPECT_EQ(estimate.left(), 0);
  estimate.done(1);  // one measurement too many is ignored
  EXPECT_EQ(estimate.left(), 0);
}

TEST(Estimate, InterpolatesOtherSizes) {
  Estimate estimate({0, 100, 300});
  estimate.done(2);
  estimate.done(3);
  EXPECT_DOUBLE_EQ(*estimate.left(), 2 + 3);
}

TEST(Estimate, IsNeverNegative) {
  Estimate estimate({100, 200, 0, 300});
  estimate.done(3);
  estimate.done(1);  // faster than estimated
  EXPECT_DOUBLE_EQ(*estimate.left(), 3 + 3);
}

TEST(Estimate, IsPrintedRounded) {
  EXPECT_EQ(rough_time(0.2), "1 s");
  EXPECT_EQ(rough_time(89), "89 s");
  EXPECT_EQ(rough_time(200), "3 min");
  EXPECT_EQ(rough_time(7000), "2 h");
}

}  // namespace
}  // namespace tutti::tools
