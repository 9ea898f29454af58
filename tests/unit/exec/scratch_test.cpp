// Scratch that is only sent is never stored: the fold goes straight into the message.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/compile/lower.hpp"
#include "plan/algorithm.hpp"

namespace tutti::exec {
namespace {

/// The number of stores to scratch in rank `me`'s program, for large staged messages.
int64_t scratch_stores(Collective collective, const char* name, Rank ranks, Rank me) {
  const plan::RankPlan plan = plan::generate(*plan::find_algorithm(collective, name), {collective, ranks}, me);
  const uint64_t count = 1 << 20;
  const Program program =
      lower(plan, {.count = count, .window = count, .element_bytes = 4}, [](Rank) { return link::LinkTraits{}; });
  const auto& segments = program.last.segments;
  return std::count_if(segments.begin(), segments.end(), [](const Segment& s) { return s.to.base == Base::Scratch; });
}

TEST(Scratch, OfARingIsNeverStored) {
  EXPECT_EQ(scratch_stores(Collective::AllReduce, "ring", 6, 2), 0);
  EXPECT_EQ(scratch_stores(Collective::ReduceScatter, "ring", 6, 2), 0);
  EXPECT_EQ(scratch_stores(Collective::Reduce, "chain", 6, 2), 0);
}

TEST(Scratch, OfATreeOnTheWayUpIsNeverStored) { EXPECT_EQ(scratch_stores(Collective::AllReduce, "binomial", 8, 4), 0); }

TEST(Scratch, ThatIsReadAgainIsStored) {
  EXPECT_GT(scratch_stores(Collective::ReduceScatter, "recursive_doubling", 8, 4), 0);
}

}  // namespace
}  // namespace tutti::exec
