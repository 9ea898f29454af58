// Made-up times: of links that nobody disturbs, and of ranks that wait for a core.
#include "tools/tune/steady.hpp"

#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

constexpr Search kSearch{.first = 1 << 10, .longest = 2 << 20, .seconds = 0.02, .probes = 3};

/// A link that takes so long for each word, and for each message.
auto link(double a_word, double a_message = 0) {
  return [=](size_t count) { return a_message + a_word * static_cast<double>(count); };
}

TEST(LongEnough, IsTheFirstLengthThatTakesLongEnough) {
  for (const double a_word : {1e-7, 1e-6, 5e-6}) {
    const Length length = long_enough(link(a_word), kSearch);
    EXPECT_TRUE(length.is_decisive);
    EXPECT_GE(link(a_word)(length.count), kSearch.seconds);
    EXPECT_LT(link(a_word)(length.count / 2), kSearch.seconds);
  }
}

TEST(LongEnough, IsTwiceTheFirstLengthOfASlowLink) {
  const Length length = long_enough(link(1e-3), kSearch);
  EXPECT_EQ(length.count, 2 * kSearch.first) << "one alone does not tell bytes from delays";
  EXPECT_TRUE(length.is_decisive);
}

TEST(LongEnough, IsTheLongestOfAFastLink) {
  const Length length = long_enough(link(1e-9), kSearch);
  EXPECT_EQ(length.count, kSearch.longest);
  EXPECT_TRUE(length.is_decisive);
}

TEST(LongEnough, IsNotTakenForADelayOfEveryMessage) {
  const auto delayed = link(8e-9, 0.03);  // 1 GB/s; the first message takes long enough, and is 3,000 times too slow
  const Length length = long_enough(delayed, kSearch);
  EXPECT_EQ(length.count, kSearch.longest);
  EXPECT_FALSE(length.is_decisive) << "twice the bytes never took longer by half: in doubt";
  const double rate = static_cast<double>(length.count) / delayed(length.count);
  EXPECT_GT(rate, 1 / 8e-9 / 4) << "and yet within 4 times";
}

TEST(LongEnough, IsFoundBesideADelayThatBytesOutgrow) {
  const auto delayed = link(1e-6, 0.03);
  const Length length = long_enough(delayed, kSearch);
  EXPECT_TRUE(length.is_decisive);
  EXPECT_LE(delayed(length.count), 1.51 * 1e-6 * static_cast<double>(length.count)) << "the delay is a third at most";
}

TEST(LongEnough, IsNotEndedByAFewDelays) {
  size_t messages = 0;
  const auto now_and_then = [&](size_t count) { return link(1e-6)(count) + (++messages % 3 == 0 ? 0 : 0.05); };
  const Length length = long_enough(now_and_then, kSearch);
  EXPECT_GE(link(1e-6)(length.count), kSearch.seconds);
}

TEST(Settled, IsTheLeastFigureThatAnotherOneIsLike) {
  EXPECT_TRUE(is_settled({1, 1.4}));
  EXPECT_TRUE(is_settled({100, 1, 1.4})) << "one was disturbed";
  EXPECT_TRUE(is_settled({0, 2, 0, 2})) << "zeros were not taken";
  EXPECT_FALSE(is_settled({1, 1.6, 1.6})) << "two were disturbed, or one";
  EXPECT_FALSE(is_settled({1, 100}));
  EXPECT_FALSE(is_settled({1}));
  EXPECT_FALSE(is_settled({0, 1}));
  EXPECT_FALSE(is_settled({}));
  EXPECT_EQ(least_of({3, 0, 2}), 2);
  EXPECT_EQ(least_of({0}), 0);
}

}  // namespace
}  // namespace tutti::tools
