#include "base/env_value.hpp"

#include <gtest/gtest.h>

namespace tutti::env_value {
namespace {

TEST(EnvironmentValue, SwitchesTakeTheUsualWords) {
  for (const char* word : {"1", "on", "true", "yes"}) EXPECT_EQ(parse<bool>(word, anything()), true) << word;
  for (const char* word : {"0", "off", "false", "no"}) EXPECT_EQ(parse<bool>(word, anything()), false) << word;
  for (const char* word : {"", "2", "ON!", "oui"}) EXPECT_FALSE(parse<bool>(word, anything())) << word;
}

TEST(EnvironmentValue, NumbersKeepToTheirBounds) {
  EXPECT_EQ(parse<int>("1", between(1, 16)), 1);
  EXPECT_EQ(parse<int>("16", between(1, 16)), 16);
  for (const char* text : {"0", "17", "-1", "4x", "4.5", "99999999999", ""}) {
    EXPECT_FALSE(parse<int>(text, between(1, 16))) << text;
  }
  EXPECT_EQ(parse<double>("0.5", between(0, 3600)), 0.5);
  for (const char* text : {"-0.1", "3601", "nan", "inf", "1e999", "1,5"}) {
    EXPECT_FALSE(parse<double>(text, between(0, 3600))) << text;
  }
  EXPECT_FALSE(parse<double>("inf", anything()));
}

TEST(EnvironmentValue, BytesKeepToTheirBounds) {
  EXPECT_EQ(parse<Bytes>("64K", between(0, 1 << 20))->value, 65536u);
  EXPECT_FALSE(parse<Bytes>("2M", between(0, 1 << 20)));
  EXPECT_FALSE(parse<Bytes>("lots", anything()));
}

TEST(EnvironmentValue, WordsMustBeInTheList) {
  enum class Colour { Red, Green, Blue };
  EXPECT_EQ(parse<Colour>("green", one_of("red|green|blue")), Colour::Green);
  EXPECT_EQ(show(Colour::Blue, one_of("red|green|blue")), "blue");
  for (const char* text : {"", "gree", "green|blue", "Red"}) {
    EXPECT_FALSE(parse<Colour>(text, one_of("red|green|blue"))) << text;
  }
  EXPECT_EQ(parse<std::string>("blue", one_of("red|green|blue")), "blue");
  EXPECT_FALSE(parse<std::string>("pink", one_of("red|green|blue")));
  EXPECT_EQ(parse<std::string>("anything", anything()), "anything");
}

TEST(EnvironmentValue, AnOptionalIsUnsetOrOfItsType) {
  EXPECT_EQ(parse<std::optional<int>>("4", between(1, 16)).value(), 4);
  EXPECT_FALSE(parse<std::optional<int>>("four", between(1, 16)));
  EXPECT_EQ(show(std::optional<int>(), anything()), "unset");
  EXPECT_EQ(show(std::optional<int>(4), anything()), "4");
}

TEST(EnvironmentValue, SaysWhatItAccepts) {
  EXPECT_EQ(accepted<int>(between(1, 16)), "an integer from 1 to 16");
  EXPECT_EQ(accepted<std::optional<double>>(between(0.5, 1e6)), "a number from 0.5 to 1000000");
  EXPECT_EQ(accepted<Bytes>(between(4096, 1 << 23)), "a number of bytes such as 4096, 64K or 8M, from 4K to 8M");
  EXPECT_EQ(accepted<bool>(anything()), "on, off, 1, 0, true, false, yes, no");
  EXPECT_EQ(accepted<std::string>(one_of("a|b")), "a, b");
  EXPECT_EQ(accepted<std::string>(anything()), "any text");
}

}  // namespace
}  // namespace tutti::env_value
