// The registry of methods.
#include "exec/method.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace tutti::exec
