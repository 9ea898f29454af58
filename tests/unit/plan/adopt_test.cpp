// Plans from outside become algorithms.
#include <gtest/gtest.h>

#include "base/format.hpp"
#include "plan/verify.hpp"
#include "support/plans.hpp"

namespace tutti::plan {
namespace {

std::vector<RankPlan> doubling(Rank n) {
  return generate_all(*find_algorithm(Collective::AllReduce, "recursive_doubling"), n);
}

TEST(Adopt, MakesAnAlgorithmOfItsOwnRanksAndCost) {
  const Algorithm& mine = adopt("mine", doubling(6));
  EXPECT_EQ(fmt::format("mine@{:016x}", hash_of(doubling(6))), mine.name);
  EXPECT_EQ(mine.collective, Collective::AllReduce);
  EXPECT_TRUE(mine.canonical);
  EXPECT_TRUE(mine.allows({Collective::AllReduce, 6}));
  EXPECT_FALSE(mine.allows({Collective::AllReduce, 5}));
  EXPECT_EQ(mine.cost({Collective::AllReduce, 6}), count(doubling(6)).cost);
  EXPECT_EQ(generate_all(mine, 6), doubling(6));
  EXPECT_THROW(generate(mine, {Collective::AllReduce, 7}, 0), Error);
  EXPECT_FALSE(adopt("ring", generate_all(*find_algorithm(Collective::AllReduce, "ring"), 6)).canonical);
}

TEST(Adopt, TreatsNoReduceAsCanonicalBecauseItHasOneRootOnly) {
  const auto plans = generate_all(*find_algorithm(Collective::Reduce, "one_shot"), 6);
  EXPECT_TRUE(is_canonical(plans));
  EXPECT_FALSE(adopt("mine", plans).canonical);
}

TEST(Adopt, FindsWhatItHasAdoptedBefore) {
  const Algorithm& mine = adopt("twice", doubling(4));
  EXPECT_EQ(&adopt("twice", doubling(4)), &mine);
  EXPECT_NE(&adopt("twice", doubling(5)), &mine);
  EXPECT_NE(&adopt("again", doubling(4)), &mine);
  EXPECT_EQ(find_algorithm(Collective::AllReduce, mine.name), &mine);
  EXPECT_EQ(find_algorithm(Collective::AllGather, mine.name), nullptr);
  for (const Algorithm* a : algorithms_of(Collective::AllReduce)) EXPECT_NE(a, &mine);
}

TEST(Adopt, RefusesWhatIsNotProven) {
  std::vector<RankPlan> plans = doubling(4);
  std::swap(plans[1], plans[2]);
  try {
    adopt("swapped", plans);
    FAIL() << "adopted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("the plans swapped@"), 0u) << error.what();
  }
  EXPECT_THROW(adopt("none", {}), Error);
}

TEST(Adopt, DoesNotCallPlansWrongThatAreTooLargeToProve) {
  std::vector<RankPlan> plans = doubling(4);
  for (RankPlan& plan : plans) plan.scratch_blocks = kNone;
  try {
    adopt("large", plans);
    FAIL() << "adopted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unsupported);
    EXPECT_NE(std::string(error.what()).find(" cannot be proven: the plans are too large to prove"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tutti::plan
