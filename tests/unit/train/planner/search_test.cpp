// The search finds the fastest layout that fits, and pruning does not change it.
#include "train/planner/search.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tutti/error.hpp"

namespace tutti::train::planner {
namespace {

Scenario scenario_of(size_t model, int64_t gpus) {
  Scenario scenario;
  scenario.model = completed(named_models()[model].model);
  scenario.cluster.gpus = gpus;
  scenario.job.batch = usual_batch(scenario.model, scenario.cluster);
  return scenario;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    return error.what();
  }
  return "";
}

TEST(PlannerSearch, PruningLosesNothing) {
  for (size_t model = 0; model < named_models().size(); ++model) {
    for (const int64_t gpus : {1, 24, 64}) {
      for (const Schedule schedule : {Schedule::GPipe, Schedule::OneForwardOneBackward, Schedule::Interleaved}) {
        if (gpus == 64 && schedule != Schedule::OneForwardOneBackward) continue;  // for speed
        Scenario scenario = scenario_of(model, gpus);
        scenario.job.schedule = schedule;
        const Outcome quick = search(scenario, {}, 3), slow = search(scenario, {}, 3, false);
        ASSERT_EQ(quick.best.size(), slow.best.size()) << named_models()[model].name << " on " << gpus;
        for (size_t i = 0; i < quick.best.size(); ++i) {
          EXPECT_EQ(quick.best[i].at("T_step"), slow.best[i].at("T_step"))
              << named_models()[model].name << " on " << gpus;
        }
        if (quick.best.empty()) {
          EXPECT_EQ(quick.smallest->at("total"), slow.smallest->at("total"));
        }
        EXPECT_LE(quick.timed, slow.timed);
      }
    }
  }
}

TEST(PlannerSearch, TheBestFitsAndUsesAllGpus) {
  const Outcome outcome = search(scenario_of(3, 512), {});
  ASSERT_FALSE(outcome.best.empty());
  for (const Candidate& found : outcome.best) {
    const Layout& l = found.layout;
    EXPECT_EQ(l.dp * l.pp * l.cp * l.ep * l.tp, 512);
    EXPECT_GE(found.at("free"), 0);
    EXPECT_GE(found.at("T_step"), outcome.best.front().at("T_step"));
    EXPECT_GE(found.at("m"), 1);
  }
}

TEST(PlannerSearch, KeepsWhatIsFixed) {
  const Outcome outcome = search(scenario_of(0, 64), {.pp = 2, .cp = 1, .tp = 4, .zero = 1, .micro_batch = 2});
  ASSERT_FALSE(outcome.best.empty());
  for (const Candidate& found : outcome.best) {
    EXPECT_EQ(found.layout.tp, 4);
    EXPECT_EQ(found.layout.pp, 2);
    EXPECT_EQ(found.layout.dp, 8);
    EXPECT_EQ(found.layout.zero, 1);
    EXPECT_EQ(found.layout.micro_batch, 2);
  }
}

TEST(PlannerSearch, ExpertsAreSpreadOnlyOverDivisors) {
  const Scenario scenario = scenario_of(7, 64);
  for (const Candidate& found : search(scenario, {}).best) EXPECT_EQ(8 % found.layout.ep, 0);
}

TEST(PlannerSearch, SaysWhatIsSmallestWhenNothingFits) {
  const Outcome outcome = search(scenario_of(4, 8), {});  // 175B on 8 GPUs
  EXPECT_TRUE(outcome.best.empty());
  ASSERT_TRUE(outcome.smallest);
  EXPECT_GT(outcome.smallest->at("total"), 350e9);  // 16 · 175e9 / 8
  EXPECT_LT(outcome.smallest->at("free"), 0);
  const int64_t enough = gpus_that_fit(scenario_of(4, 8), {});
  EXPECT_GT(enough, 8);
  EXPECT_FALSE(search(scenario_of(4, enough), {}).best.empty());
}

TEST(PlannerSearch, SaysWhichSizeIsImpossible) {
  const Scenario scenario = scenario_of(0, 64);
  EXPECT_EQ(error_of([&] { search(scenario, {.tp = 3}); }), "tp = 3 does not divide the 32 attention heads");
  EXPECT_EQ(error_of([&] { search(scenario, {.pp = 5}); }), "pp = 5 does not divide the 32 layers");
  EXPECT_EQ(error_of([&] { search(scenario, {.ep = 2}); }), "ep = 2 does not divide the 1 expert: the model is dense");
  EXPECT_EQ(error_of([&] { search(scenario, {.dp = 16, .tp = 8}); }),
            "the product of the given sizes = 128 does not divide the 64 GPUs");
  EXPECT_EQ(error_of([&] { search(scenario, {.dp = 0}); }), "dp = 0 does not divide the 1024 sequences of a step");
  EXPECT_NE(error_of([&] { search(scenario, {.zero = 4}); }), "");
  Scenario odd = scenario_of(0, 7);
  odd.job.batch = 1000;
  EXPECT_NE(error_of([&] { search(odd, {}); }).find("no layout uses all 7 GPUs: tp must divide 32 heads"),
            std::string::npos);
  Scenario nothing = scenario;
  nothing.cluster.memory = 0;
  EXPECT_NE(error_of([&] { search(nothing, {}); }).find("a GPU's memory in bytes must be between"), std::string::npos);
}

}  // namespace
}  // namespace tutti::train::planner
