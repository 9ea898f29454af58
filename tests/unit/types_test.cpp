#include "tutti/types.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {
namespace {

TEST(Types, EveryNameIsItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i < kDTypes; ++i) names.insert(name_of(static_cast<DType>(i)));
  for (int i = 0; i < kOps; ++i) names.insert(name_of(static_cast<Op>(i)));
  for (int i = 0; i < kCollectives; ++i) names.insert(name_of(static_cast<Collective>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kDTypes + kOps + kCollectives));
}

/// Programs were compiled with them, and files hold them.
TEST(Types, ValuesOfTheCInterfaceStay) {
  const std::pair<int, const char*> values[] = {
      {tuttiInt8, "i8"},     {tuttiUint8, "u8"},      {tuttiInt32, "i32"},         {tuttiUint32, "u32"},
      {tuttiInt64, "i64"},   {tuttiUint64, "u64"},    {tuttiFloat16, "f16"},       {tuttiFloat32, "f32"},
      {tuttiFloat64, "f64"}, {tuttiBfloat16, "bf16"}, {tuttiFloat8e4m3, "f8e4m3"}, {tuttiFloat8e5m2, "f8e5m2"},
      {tuttiInt16, "i16"},   {tuttiUint16, "u16"}};
  int next = 0;
  for (const auto& [value, name] : values) {
    EXPECT_EQ(value, next++);
    EXPECT_STREQ(name_of(static_cast<DType>(value)), name);
  }
  EXPECT_EQ(next, kDTypes);
  next = 0;
  for (const auto& [value, name] : {std::pair(int{tuttiSum}, "sum"),
                                    {tuttiProd, "prod"},
                                    {tuttiMin, "min"},
                                    {tuttiMax, "max"},
                                    {tuttiAvg, "avg"},
                                    {tuttiBitAnd, "bitand"},
                                    {tuttiBitOr, "bitor"},
                                    {tuttiBitXor, "bitxor"}}) {
    EXPECT_EQ(value, next++);
    EXPECT_STREQ(name_of(static_cast<Op>(value)), name);
  }
  EXPECT_EQ(next, tuttiNumOps);
  EXPECT_EQ(next, kNamedOps);
  EXPECT_STREQ(name_of(Op::PreMulSum), "premulsum");
}

TEST(Types, KnowTheirKind) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    const std::string name = name_of(type);
    EXPECT_EQ(is_signed_integer(type), name[0] == 'i') << name;
    EXPECT_EQ(is_float(type), name[0] != 'i' && name[0] != 'u') << name;
    if (is_float(type)) continue;
    EXPECT_EQ(size_of(type) * 8, static_cast<size_t>(std::stoi(name.substr(1))));
  }
}

TEST(Types, AnUnknownValueHasAName) { EXPECT_STREQ(name_of(static_cast<DType>(200)), "?"); }

}  // namespace
}  // namespace tutti
