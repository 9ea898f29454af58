// Programs of sends and receives: two instructions a transfer at most, whatever its size.
#include "exec/compile/direct.hpp"

#include <gtest/gtest.h>

#include "exec/program.hpp"

namespace tutti::exec {
namespace {

constexpr uint64_t kMessage = 4096;

Program transfer(bool send, uint64_t bytes) {
  Direct direct{.message = kMessage};
  direct.transfers.push_back({{1}, send, nullptr, bytes, 7});
  return lower_direct(direct, 0, 2, PeerTraits(2));
}

TEST(DirectProgram, IsOfConstantSize) {
  for (const bool send : {true, false}) {
    for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{1} << 40, uint64_t{1} << 60}) {
      const Program whole = transfer(send, bytes), more = transfer(send, bytes + 5);
      ASSERT_EQ(whole.last.ops.size(), 1U);
      EXPECT_EQ(whole.last.ops[0].bytes, kMessage);
      EXPECT_EQ(whole.last.ops[0].repeats, bytes / kMessage);
      ASSERT_EQ(more.last.ops.size(), 2U);
      EXPECT_EQ(more.last.ops[0].repeats, bytes / kMessage);
      EXPECT_EQ(more.last.ops[1].bytes, 5U);
      EXPECT_EQ(more.last.ops[1].repeats, 1U);
      const Segment& rest = more.last.segments[1];
      EXPECT_EQ(send ? more.last.sources[rest.sources].offset : rest.to.offset, bytes) << "it follows the others";
      EXPECT_EQ(sent_bytes(more), send ? bytes + 5 : 0);
    }
  }
}

TEST(DirectProgram, SendsWhatFitsIntoOneMessageAtOnce) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kMessage}) {
    const Program program = transfer(true, bytes);
    ASSERT_EQ(program.last.ops.size(), 1U);
    EXPECT_EQ(program.last.ops[0].bytes, bytes);
    EXPECT_EQ(program.last.ops[0].repeats, 1U);
  }
}

TEST(DirectProgram, FoldsBlocksOfAnySize) {
  Direct direct{.message = kMessage};
  direct.folds.push_back({nullptr, nullptr, (uint64_t{1} << 60) + 4, 7});
  const Program program = lower_direct(direct, 0, 3, PeerTraits(3));
  ASSERT_EQ(program.last.ops.size(), 2U);
  EXPECT_EQ(program.last.ops[0].repeats, (uint64_t{1} << 60) / kMessage);
}

}  // namespace
}  // namespace tutti::exec
