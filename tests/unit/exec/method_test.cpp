// The registry of methods.
#include "exec/method.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

TEST(Methods, OfTwoBackendsMayHaveOneName) {
  static const Method kOther{.name = "slots", .backend = "another", .only_modelled = true};
  const Method* const others[] = {&kOther, &kOther};
  register_methods(others);
  EXPECT_EQ(methods_of("another"), std::vector<const Method*>{&kOther}) << "once";
  EXPECT_FALSE(kOther == methods::slots);
  const auto cuda = methods_of("cuda");
  EXPECT_NE(std::find(cuda.begin(), cuda.end(), &methods::slots), cuda.end());
}

/// Seconds that a method adds to a round of a plan on 8 ranks, in 4 blocks.
double added_to_a_round(const Method& method) {
  plan::Cost cost;
  Prices prices{.inside = {.alpha = 1e-6, .beta = 1e-9}, .between = {.alpha = 1e-6, .beta = 1e-9}};
  method.price(cost, prices, 8, 4);
  return prices.inside.alpha - 1e-6;
}

/// That a block executes as many is seen with the stand-in: `ctest -R gpu.fences`.
TEST(Methods, ChargeTheFencesOfARound) {
  const double round = machine_constants().cuda_round + machine_constants().cuda_fence;
  EXPECT_DOUBLE_EQ(added_to_a_round(methods::slots), round);
  EXPECT_DOUBLE_EQ(added_to_a_round(methods::get), round + 1e-6) << "and the way of the first load";
  EXPECT_EQ(added_to_a_round(methods::ll), 0);
  EXPECT_DOUBLE_EQ(added_to_a_round(methods::nvls), machine_constants().cuda_fence);
  EXPECT_LT(added_to_a_round(methods::ll128), round);
}

}  // namespace
}  // namespace tutti::exec
