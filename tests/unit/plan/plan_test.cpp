#include "plan/plan.hpp"

#include <gtest/gtest.h>

#include <random>

#include "plan/builder.hpp"

namespace tutti::plan {
namespace {

__extension__ using Wide = unsigned __int128;

TEST(Cut, IsTheFractionRoundedDownToTheUnit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t count = random() >> (random() % 64);
    const auto den = static_cast<uint32_t>(random() >> (32 + random() % 31)) | 1;
    const auto num = static_cast<uint32_t>(random() % den);
    const uint32_t bytes = 1u << (random() % 4);
    const uint64_t unit = count / den >= 128 / bytes ? 128 / bytes : 1;
    const auto exact = static_cast<uint64_t>(static_cast<Wide>(count) * num / den);
    ASSERT_EQ(cut({num, den}, count, bytes, den), exact / unit * unit) << count << "·" << num << "/" << den;
  }
}

TEST(Cut, EndsExactlyAtTheCount) { EXPECT_EQ(cut({3, 3}, 1000003, 4, 3), 1000003u); }

TEST(Cut, RoundsToElementsWhenAChunkIsSmall) { EXPECT_EQ(cut({1, 2}, 31, 8, 2), 15u); }

TEST(Builder, JoinsAdjoiningPieces) {
  PlanBuilder plan({Collective::AllReduce, 4}, 0);
  const View in = plan.input(plan.partition(4));
  EXPECT_EQ((Pieces(in[1]) + in[2]).list().size(), 1u);
  EXPECT_EQ((Pieces(in[1]) + in[3]).list().size(), 2u);
}

TEST(Builder, NamesTheStepOfAnotherLaneByItsIndexInTheTable) {
  PlanBuilder plan({Collective::AllReduce, 2}, 0);
  auto up = plan.lane(), down = plan.lane();
  up.recv(plan.scratch(1).all(), 1);
  const StepRef done = up.copy(plan.output().all(), plan.input().all());
  down.after(done).send(plan.output().all(), 1);
  const RankPlan built = plan.finish();
  ASSERT_EQ(built.steps.size(), 3u);
  EXPECT_EQ(built.steps[2].after, 1u);
  EXPECT_EQ(built.lanes[1].steps.begin, 2u);
}

}  // namespace
}  // namespace tutti::plan
