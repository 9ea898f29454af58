// What tuttiSetJobEnd tells a process that no launcher of ours has started.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tutti/tutti.h"

namespace tutti {
namespace {

double ends_in() {
  tuttiJobState_t state{};
  state.size = sizeof state;
  EXPECT_EQ(tuttiGetJobState(&state), tuttiSuccess) << tuttiGetLastError();
  return state.ends_in;
}

class JobEnd : public testing::Test {
 protected:
  ~JobEnd() override { tuttiSetJobEnd(-1); }
};

TEST_F(JobEnd, IsToldFromThenOn) {
  EXPECT_LT(ends_in(), 0) << "it goes on";
  tuttiSetJobEnd(1000);
  const double first = ends_in();
  EXPECT_GT(first, 0);
  EXPECT_LE(first, 1000);
  EXPECT_LE(ends_in(), first) << "it counts down";
  tuttiSetJobEnd(0);
  EXPECT_EQ(ends_in(), 0) << "and is not negative when it has come";
}

TEST_F(JobEnd, IsTakenBackByANegativeNumberOrNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double none : {-1.0, -1e-300, -1e300, -infinity, std::nan("")}) {
    tuttiSetJobEnd(1000);
    tuttiSetJobEnd(none);
    EXPECT_LT(ends_in(), 0) << none;
  }
}

TEST_F(JobEnd, IsAtMostThirtyYearsAhead) {
  for (const double late : {1e9, 1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    tuttiSetJobEnd(late);
    EXPECT_GT(ends_in(), 0.99e9) << late;
    EXPECT_LE(ends_in(), 1e9) << late;
  }
}

}  // namespace
}  // namespace tutti
