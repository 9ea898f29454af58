// Large results are stored past the cache unless they are read again.
#include <gtest/gtest.h>

#include <algorithm>

#include "exec/compile/lower.hpp"
#include "plan/algorithm.hpp"

namespace tutti::exec {
namespace {

constexpr uint64_t kAlways = 0, kNever = link::kNever;  // bytes from which messages are zero-copy
enum class Stores { None, Some, All };

/// Which stores to the output in rank 1's program go past the cache?
Stores streamed(Collective collective, const char* name, Rank ranks, uint64_t zcopy_from, bool stream = true) {
  const plan::RankPlan plan = plan::generate(*plan::find_algorithm(collective, name), {collective, ranks}, 1);
  const Geometry geometry{.count = 1 << 20,
                          .window = 1 << 20,
                          .element_bytes = 4,
                          .nontemporal = stream,
                          .rules = {.address_from = zcopy_from}};
  const Program program =
      lower(plan, geometry, PeerTraits(static_cast<size_t>(ranks), {.out = {.address = true}, .in = {}}));
  int64_t all = 0, past = 0;
  for (const Instruction& op : program.last.ops) {
    const auto begin = program.last.segments.begin() + op.segments.begin;
    const bool to_output = std::any_of(begin, program.last.segments.begin() + op.segments.end,
                                       [](const Segment& s) { return s.to.base == Base::Output; });
    all += to_output ? 1 : 0;
    past += to_output && op.nontemporal ? 1 : 0;
  }
  EXPECT_GT(all, 0);
  return past == 0 ? Stores::None : past == all ? Stores::All : Stores::Some;
}

TEST(Nontemporal, IsForResultsThatAreSentFromTheSlotTheyAreFoldedInto) {
  EXPECT_EQ(streamed(Collective::AllReduce, "ring", 4, kNever), Stores::All);
  EXPECT_EQ(streamed(Collective::ReduceScatter, "ring", 4, kNever), Stores::All);
  EXPECT_EQ(streamed(Collective::AllGather, "ring", 4, kNever), Stores::All);
}

TEST(Nontemporal, ExcludesWhatPeersReadInPlace) {
  EXPECT_EQ(streamed(Collective::AllReduce, "ring", 4, kAlways), Stores::Some);  // the last block is not sent
}

TEST(Nontemporal, ExcludesPartialSumsInTheOutput) {
  EXPECT_NE(streamed(Collective::AllReduce, "recursive_doubling", 8, kNever), Stores::All);
}

TEST(Nontemporal, IsOffUnlessAskedFor) {
  EXPECT_EQ(streamed(Collective::AllReduce, "ring", 4, kNever, false), Stores::None);
}

}  // namespace
}  // namespace tutti::exec
