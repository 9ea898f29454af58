#include "tutti/types.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace tutti {
namespace {

TEST(Types, EveryNameIsItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i < kDTypes; ++i) names.insert(name_of(static_cast<DType>(i)));
  for (int i = 0; i < kOps; ++i) names.insert(name_of(static_cast<Op>(i)));
  for (int i = 0; i < kCollectives; ++i) names.insert(name_of(static_cast<Collective>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kDTypes + kOps + kCollectives));
}

TEST(Types, AnUnknownValueHasAName) { EXPECT_STREQ(name_of(static_cast<DType>(200)), "?"); }

}  // namespace
}  // namespace tutti
