// The report of a fault (exec/gpu/fault_report.hpp), whose words become visible to the host in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "exec/gpu/fault_report.hpp"

namespace tutti::exec::gpu {
namespace {

struct PlainMemory {
  static uint64_t load(const uint64_t* at) { return *at; }
  static void store_relaxed(uint64_t* at, uint64_t value) { *at = value; }
};

constexpr size_t kWords = std::size(FaultReport{}.words);

const Fault kFault = {.kind = FaultKind::BadLength,
                      .peer = 3,
                      .lane = 2,
                      .step = 7,
                      .expected_bytes = 0x100000000,
                      .got = {.tag = 0xabcdef012345, .length = ~uint64_t{0}, .where = link::Where::Mapped},
                      .error = -5,
                      .call = 0x123456789abcdef0,
                      .other = 0};  // halves of 0 are data too

TEST(FaultReport, IsReadAsItWasWritten) {
  FaultReport report;
  store_report<PlainMemory>(report, kFault);
  Fault read;
  ASSERT_TRUE(load_report<PlainMemory>(report, read));
  EXPECT_EQ(read.kind, kFault.kind);
  EXPECT_EQ(read.peer, kFault.peer);
  EXPECT_EQ(read.lane, kFault.lane);
  EXPECT_EQ(read.step, kFault.step);
  EXPECT_EQ(read.expected_bytes, kFault.expected_bytes);
  EXPECT_EQ(read.got.tag, kFault.got.tag);
  EXPECT_EQ(read.got.length, kFault.got.length);
  EXPECT_EQ(read.got.where, kFault.got.where);
  EXPECT_EQ(read.error, kFault.error);
  EXPECT_EQ(read.call, kFault.call);
  EXPECT_EQ(read.other, kFault.other);
}

TEST(FaultReport, KeepsThatAPeerIsNotKnown) {
  FaultReport report;
  store_report<PlainMemory>(report, {.kind = FaultKind::TwoAtOnce, .call = 9, .other = 8});
  Fault read{.peer = 1};
  ASSERT_TRUE(load_report<PlainMemory>(report, read));
  EXPECT_EQ(read.peer, kNoRank);
  EXPECT_EQ(read.call, 9u);
  EXPECT_EQ(read.other, 8u);
}

TEST(FaultReport, IsBelievedWhenAllItsWordsAreThereInWhateverOrderTheyCome) {
  FaultReport whole;
  store_report<PlainMemory>(whole, kFault);
  std::vector<size_t> order(kWords);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    FaultReport seen;
    Fault read;
    for (const size_t word : order) {
      EXPECT_FALSE(load_report<PlainMemory>(seen, read)) << "before word " << word;
      seen.words[word] = whole.words[word];
    }
    EXPECT_TRUE(load_report<PlainMemory>(seen, read));
  }
}

}  // namespace
}  // namespace tutti::exec::gpu
