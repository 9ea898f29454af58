#include "tutti/train/data.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::train {
namespace {

TEST(Corpus, SequencesAreDeterminedBySeedStepAndIndex) {
  const Corpus text("the quick brown fox jumps over the lazy dog", "fox");
  const auto sequence = [&](uint64_t seed, uint64_t step, uint64_t index) {
    std::vector<int32_t> both(16);
    text.sequence(seed, step, index, 8, both.data(), both.data() + 8);
    return both;
  };
  const std::vector<int32_t> first = sequence(1, 2, 3);
  EXPECT_EQ(first, sequence(1, 2, 3));
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(first[i + 1], first[8 + i]);  // a target is the next token
  int others = 0;
  for (uint64_t i = 4; i < 12; ++i) others += sequence(1, 2, i) != first ? 1 : 0;
  EXPECT_GT(others, 4);
}

TEST(Corpus, SaysWhatItNeeds) {
  const Corpus text("short", "note");
  std::vector<int32_t> ids(16);
  try {
    text.sequence(1, 0, 0, 8, ids.data(), ids.data() + 8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the text note has 5 bytes; a sequence of 8 needs 9");
  }
  try {
    Corpus::read("/nowhere/book");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--text /nowhere/book: there is no such file, or nothing in it");
  }
}

TEST(Corpus, DefaultsToTheLicences) {
  if (!std::filesystem::exists("/usr/share/common-licenses")) GTEST_SKIP() << "no Debian: there are no licence texts";
  EXPECT_GT(Corpus::read("").size(), 100000u);
}

}  // namespace
}  // namespace tutti::train
