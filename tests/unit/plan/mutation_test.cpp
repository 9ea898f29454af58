// Tests the verifier with random defects in plans. A plan that it accepts must give right results in an executor that
// shares no code with it, in many orders, sizes and modes. The original plan is not used for comparison.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "plan/verify.hpp"
#include "plan/verify/alike.hpp"
#include "support/mutants.hpp"
#include "support/plans.hpp"
#include "support/random_executor.hpp"
#include "support/shapes.hpp"

namespace tutti::plan {
namespace {

using test::catalogue;
using test::Mutation;
using test::run_in_random_order;
using test::Trial;

// Fewer under sanitizers, which check the code and not the proof.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kOfEach = 1, kMutants = 125, kTrials = 30;
#else
constexpr int kOfEach = 8, kMutants = 1000, kTrials = 150;  // of one algorithm and kind; altogether; per mutant
#endif
constexpr std::array<Rank, 6> kRanks = {2, 3, 4, 5, 7, 8};

/// Random sizes, rounds, modes and orders.
Trial random_trial(std::mt19937_64& random) {
  constexpr std::array<uint64_t, 8> kSizes = {0, 1, 2, 3, 13, 40, 129, 257};
  Trial trial{.seed = random(), .windows = {}, .in_place = random() % 2 == 0};
  const uint64_t rounds = 1 + random() % 5;
  for (uint64_t i = 0; i < rounds; ++i) trial.windows.push_back(kSizes[random() % kSizes.size()]);
  if (random() % 2 == 0) trial.capacity = 1000;  // the proof must not rely on small links
  return trial;
}

/// The fault of the first wrong run of `trials`; empty if all were right.
std::string first_fault(std::span<const RankPlan> plans, int trials, std::mt19937_64& random) {
  for (int i = 0; i < trials; ++i) {
    const Trial trial = random_trial(random);
    const std::string fault = run_in_random_order(plans, trial);
    if (!fault.empty()) return fault + (trial.in_place ? " (in place)" : "");
  }
  return {};
}

TEST(RandomOrder, GivesRightResultsForEveryPlanOfTheCatalogue) {
  std::mt19937_64 random(7);
  for (const Algorithm* algorithm : catalogue()) {
    for (const Rank n : {1, 2, 3, 4, 5, 6, 7, 8, 11}) {
      for (const Shape& shape : test::shapes_of(*algorithm, n)) {
        const auto plans = generate_all(*algorithm, shape);
        EXPECT_EQ(first_fault(plans, 12, random), "") << test::name_of(*algorithm) << ", " << test::words_of(shape);
      }
    }
  }
}

TEST(RandomOrder, FindsFaultsThatOnlySomeOrdersShow) {
  std::mt19937_64 random(3);
  const auto racing = test::written(Collective::AllReduce, 1, [](Rank, PlanBuilder& plan) {
    auto one = plan.lane(), two = plan.lane();
    const View middle = plan.scratch(1);
    one.copy(middle.all(), plan.input().all());
    two.copy(plan.output().all(), middle.all());
  });
  EXPECT_NE(first_fault(racing, 50, random), "");
  const auto falsely_lent = test::written(Collective::AllReduce, 2, [](Rank me, PlanBuilder& plan) {
    auto lane = plan.lane();
    lane.lend(plan.input().all(), 1 - me);  // in place, the next step overwrites it
    lane.complete(plan.output().all(), {plan.input().all(), lane.from(1 - me)});
  });
  EXPECT_NE(first_fault(falsely_lent, 50, random), "");
}

struct Tally {
  int rejected = 0;
  int shown_wrong = 0;  // rejected mutants for which the executor found a fault too
  int accepted = 0;
  void add(const Tally& other) {
    rejected += other.rejected, shown_wrong += other.shown_wrong, accepted += other.accepted;
  }
};

void print(const std::string& what, const Tally& t) {
  std::printf("  %-32s  %4d rejected (%4d of them wrong in the executor too), %4d accepted and right\n", what.c_str(),
              t.rejected, t.shown_wrong, t.accepted);
}

/// The result of one mutant.
Tally judged(const std::vector<RankPlan>& mutant, const std::string& what, std::mt19937_64& random) {
  const Verdict verdict = verify(mutant);
  EXPECT_EQ(verdict.ok, verify(mutant, {.every_rank = true}).ok) << what;
  if (!verdict) {
    EXPECT_FALSE(verdict.reason.empty());
    return {.rejected = 1, .shown_wrong = first_fault(mutant, 20, random).empty() ? 0 : 1};
  }
  EXPECT_EQ(first_fault(mutant, kTrials, random), "") << what << " was accepted";
  return {.accepted = 1};
}

// If all ranks are alike, the verifier checks races on one of them only (plan/verify/alike.hpp).
TEST(Mutants, WithTheSameDefectOnEveryRankAreJudgedOnOneRankAsOnAll) {
  std::mt19937_64 seeds(5);
  int right = 0, out_of_order = 0;  // mutants whose ranks are all alike
  for (const Algorithm* algorithm : catalogue()) {
    for (int i = 0; i < test::kMutations * kOfEach; ++i) {
      const auto shapes = test::shapes_of(*algorithm, kRanks[seeds() % kRanks.size()]);
      if (shapes.empty()) continue;
      auto mutant = generate_all(*algorithm, shapes[seeds() % shapes.size()]);
      const uint64_t seed = seeds();
      for (RankPlan& plan : mutant) {
        std::mt19937_64 random(seed);
        std::vector<RankPlan> alone{std::move(plan)};
        for (int tries = 0; tries < 50 && !test::mutate(alone, static_cast<Mutation>(i % test::kMutations), random);) {
          ++tries;
        }
        plan = std::move(alone[0]);
      }
      const Verdict one = verify(mutant), all = verify(mutant, {.every_rank = true});
      EXPECT_EQ(one.ok, all.ok) << test::name_of(*algorithm) << ": " << one.reason << all.reason;
      const auto is_about = [&](const char* words) { return all.reason.find(words) != std::string::npos; };
      const bool order = is_about("lent, but") || is_about("in no fixed order");
      if ((!all && !order) || !verifier::all_ranks_are_alike(verifier::Model(mutant))) continue;
      ++(order ? out_of_order : right);
    }
  }
  std::printf("  all ranks alike: %d accepted, %d rejected for their order\n", right, out_of_order);
  EXPECT_GE(right, kOfEach * 5);
  EXPECT_GE(out_of_order, kOfEach);
}

TEST(Mutants, AreRejectedOrRightInEveryOrder) {
  std::mt19937_64 random(1);
  std::array<Tally, test::kMutations> of_kind{};
  Tally all;
  for (const Algorithm* algorithm : catalogue()) {
    Tally of_algorithm;
    for (int kind = 0; kind < test::kMutations; ++kind) {
      for (int i = 0; i < kOfEach; ++i) {
        const auto shapes = test::shapes_of(*algorithm, kRanks[random() % kRanks.size()]);
        if (shapes.empty()) continue;
        auto mutant = generate_all(*algorithm, shapes[random() % shapes.size()]);
        const auto mutation = static_cast<Mutation>(kind);
        int tries = 0;
        while (!test::mutate(mutant, mutation, random) && ++tries < 50) {
        }
        if (tries == 50) continue;
        const Tally one = judged(mutant, test::name_of(*algorithm) + ", " + test::name_of(mutation), random);
        of_kind[static_cast<size_t>(kind)].add(one);
        of_algorithm.add(one);
      }
    }
    print(test::name_of(*algorithm), of_algorithm);
    EXPECT_GE(of_algorithm.rejected, kOfEach) << test::name_of(*algorithm);
    all.add(of_algorithm);
  }
  for (int kind = 0; kind < test::kMutations; ++kind) {
    print(test::name_of(static_cast<Mutation>(kind)), of_kind[static_cast<size_t>(kind)]);
  }
  print("all", all);
  EXPECT_GE(all.rejected + all.accepted, kMutants);
  EXPECT_GE(all.shown_wrong * 10, all.rejected * 9) << "the executor or the verifier is too strict or too lax";
}

}  // namespace
}  // namespace tutti::plan
