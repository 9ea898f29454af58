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

TEST(PlannerSearch, TakesTheLayoutThatTrainedLlama3) {
  Scenario scenario = scenario_of(5, 16384);
  scenario.cluster = named_clusters()[2].cluster;  // H100
  scenario.cluster.gpus = 16384;
  const Outcome outcome = search(scenario, {.pp = 16, .tp = 8});  // 126 layers over 16 stages
  ASSERT_FALSE(outcome.best.empty());
  const Candidate& best = outcome.best.front();
  EXPECT_EQ(best.layout.cp, 1);
  EXPECT_EQ(best.layout.dp, 128);
  EXPECT_EQ(best.layout.recompute, 0);
  EXPECT_EQ(best.at("l"), 8);
  EXPECT_GE(best.at("MFU"), 0.35);
}

TEST(PlannerSearch, ContextParallelismOnlyWhereMemoryOrLengthAsksForIt) {
  for (const int64_t gpus : {8, 64, 1024}) {
    for (const Candidate& found : search(scenario_of(0, gpus), {}).best) EXPECT_EQ(found.layout.cp, 1) << gpus;
  }
  Scenario scenario = scenario_of(0, 8);
  scenario.model.sequence = 1 << 19;
  scenario.job.batch = 8;
  const Outcome longest = search(scenario, {});
  ASSERT_FALSE(longest.best.empty());
  EXPECT_GT(longest.best.front().layout.cp, 1);
}

TEST(PlannerSearch, TensorParallelismStaysInAHostIfAnythingElseFits) {
  Scenario scenario = scenario_of(0, 8);
  scenario.cluster.gpus_per_host = 1;
  scenario.job.batch = 1;  // one micro-batch through eight stages: almost all of it is bubble
  const Candidate best = search(scenario, {}).best.front();
  EXPECT_EQ(best.layout.tp, 1);
  const Candidate given =
      search(scenario, {.tp = 8}).best.front();  // what is given, counts, here and where it is faster
  EXPECT_EQ(given.layout.tp, 8);
  EXPECT_LT(given.at("T_step"), best.at("T_step"));
  scenario.cluster.memory = 10e9;  // a stage of 7B takes 14 GB and more, an eighth of every layer no more either
  EXPECT_TRUE(search(scenario, {}).best.empty());
}

TEST(PlannerSearch, FindsTheDepthOfInterleaving) {
  const Scenario scenario = scenario_of(5, 16384);
  const double found = search(scenario, {.pp = 16, .tp = 8}).best.front().at("T_step");
  Scenario flat = scenario;
  flat.job.schedule = Schedule::OneForwardOneBackward;
  const Candidate one = search(flat, {.pp = 16, .tp = 8}).best.front();
  EXPECT_EQ(one.layout.chunks, 1);
  EXPECT_LT(found, one.at("T_step"));
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
  EXPECT_EQ(error_of([&] { search(scenario, {.tp = 3}); }),
            "tp = 3 does not divide the 32 attention heads; 2 or 4 would");
  EXPECT_EQ(error_of([&] { search(scenario, {.pp = 5}); }), "pp = 5 does not divide the 64 GPUs; 4 or 8 would");
  EXPECT_EQ(error_of([&] { search(scenario, {.ep = 2}); }),
            "ep = 2 does not divide the 1 expert: the model is dense; 1 would");
  EXPECT_EQ(error_of([&] { search(scenario, {.dp = 16, .tp = 8}); }),
            "the product of the given sizes = 128 does not divide the 64 GPUs; 64 would");
  EXPECT_EQ(error_of([&] { search(scenario, {.dp = 0}); }),
            "dp = 0 does not divide the 1024 sequences of a step; 1 would");
  EXPECT_NE(error_of([&] { search(scenario, {.zero = 4}); }), "");
  EXPECT_EQ(error_of([&] { search(scenario, {.pp = 64}); }),
            "pp = 64 is more than the 32 layers, and each stage needs one; at most 32 would do");
  Scenario deep = scenario;
  deep.job.chunks = 5;
  EXPECT_EQ(error_of([&] { search(deep, {.pp = 8}); }),
            "5 chunks of 8 stages are more than the 32 layers, embedding and head; at most 4 chunks would do");
  Scenario odd = scenario_of(0, 7);
  odd.job.batch = 1000;
  EXPECT_NE(error_of([&] { search(odd, {.pp = 1}); }).find("no layout uses all 7 GPUs: tp must divide 32 heads"),
            std::string::npos);
  EXPECT_NE(error_of([&] { search(odd, {.pp = 1}); }).find("a batch of 1001 sequences would do"), std::string::npos);
  Scenario nothing = scenario;
  nothing.cluster.memory = 0;
  EXPECT_NE(error_of([&] { search(nothing, {}); }).find("a GPU's memory in bytes must be between"), std::string::npos);
}

}  // namespace
}  // namespace tutti::train::planner
