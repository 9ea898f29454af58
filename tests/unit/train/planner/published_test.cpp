// Published runs beside their predictions, and the figures of a whole run.
#include "train/planner/published.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

TEST(PublishedRuns, ArePredicted) {
  std::vector<double> errors;
  for (const PublishedRun& run : published_runs()) {
    const Prediction found = predict(run);
    EXPECT_LE(std::abs(found.error), 0.30)
        << run.label << ": published " << run.published << ", predicted " << found.share;
    errors.push_back(std::abs(found.error));
  }
  ASSERT_GE(errors.size(), 25u);
  EXPECT_LE(median(errors), 0.12);
}

TEST(PublishedRuns, ArePredictedByOthers) {
  size_t runs = 0;
  std::vector<double> errors;
  for (const HeldOut& held : hold_out()) {
    for (const double error : held.errors) {
      EXPECT_LE(std::abs(error), 0.30) << held.paper << " with η = " << held.efficiency;
      errors.push_back(std::abs(error));
    }
    runs += held.errors.size();
    EXPECT_TRUE(held.paper != "Smith 2022" || held.efficiency > 0.70) << "its own runs say 0.56 to 0.61";
  }
  EXPECT_EQ(runs, published_runs().size());
  EXPECT_LE(median(errors), 0.12);
}

TEST(PublishedRuns, AreMatchedExactlyByAnEfficiencyOfTheirOwn) {
  for (const PublishedRun& run : published_runs()) {
    EXPECT_NEAR(predict(run, matching_efficiency(run)).error, 0, 0.002) << run.label;
  }
}

TEST(PublishedRuns, TheMedianIsTheMiddle) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({8, 1, 9, 4}), 6);
}

TEST(PublishedRuns, HaveKnownSources) {
  std::set<std::string> known;
  for (const Source& source : sources()) known.insert(source.key);
  for (const PublishedRun& run : published_runs()) {
    const std::string source = run.source;
    EXPECT_TRUE(known.contains(source.substr(0, source.find(',')))) << source;
    EXPECT_STRNE(run.seen, "") << run.label;
  }
}

/// The best layout of Llama 3 405B on 16,384 GPUs, with a step of 6 s.
Candidate llama() {
  Scenario scenario;
  for (const NamedModel& model : named_models()) {
    if (std::string(model.name) == "405b") scenario.model = completed(model.model);
  }
  scenario.cluster.gpus = 16384;
  scenario.job.batch = 2048;
  Candidate candidate{{.dp = 128, .pp = 16, .tp = 8}, values_of(scenario)};
  set_layout(candidate.values, candidate.layout);
  candidate.values[step_sheet().slot("T_step")] = 6;
  step_sheet().evaluate(candidate.values, Part::Layout, Part::Time);
  return candidate;
}

TEST(WholeRun, DaysHoursAndCost) {
  const Candidate step = llama();
  const std::vector<double> values = values_of_run({.tokens = 15.6e12, .price = 2}, step);
  const auto at = [&](const char* name) { return values[run_sheet().slot(name)]; };
  EXPECT_DOUBLE_EQ(at("steps"), 15.6e12 / (2048.0 * 8192));  // 929,832
  EXPECT_NEAR(at("steps"), 929832, 1);
  EXPECT_DOUBLE_EQ(at("D_best"), 8.1e12);  // 20 · 405 · 10⁹
  EXPECT_DOUBLE_EQ(at("days"), at("steps") * 6 / (1 - at("lost")) / 86400);
  EXPECT_DOUBLE_EQ(at("gpu_hours"), at("days") * 24 * 16384);
  EXPECT_DOUBLE_EQ(at("cost"), 2 * at("gpu_hours"));
  EXPECT_NEAR(at("C_run"), 6 * 405e9 * 15.6e12, 0.09 * 6 * 405e9 * 15.6e12);  // 3.8 · 10²⁵, and attention
}

TEST(WholeRun, FailuresAndCheckpoints) {
  // 54 days · 24 h · 16,384 / 419: 50,676 h for a GPU, 3.09 h = 11,135 s for all. Young: √(2 · 60 · 11,135) = 1,156 s.
  const std::vector<double> values = values_of_run({}, llama());
  const auto at = [&](const char* name) { return values[run_sheet().slot(name)]; };
  EXPECT_NEAR(at("mtbf_G"), 11135, 1);
  EXPECT_NEAR(at("τ_1"), 1156, 1);
  EXPECT_NEAR(at("τ"), 1156 * (1 + 0.0519 / 3 + 0.002694 / 9) - 60, 1);  // Daly: 1,116 s
  EXPECT_NEAR(at("lost"), 60 / 1176.4 + (558.2 + 60 + 600) / 11135, 1e-3);
  EXPECT_NEAR(at("failures"), at("days") * 86400 / 11135, 0.1);
}

TEST(WholeRun, TheLargestModelThatFits) {
  // 80 GB on 64 ranks: 16, 4 + 12/64, 2 + 14/64 and 16/64 bytes a parameter.
  const std::vector<double> values = values_of_fit(80e9, 64);
  const auto at = [&](const char* name) { return values[fit_sheet().slot(name)]; };
  EXPECT_DOUBLE_EQ(at("Ψ_ddp"), 5e9);
  EXPECT_NEAR(at("Ψ_zero1"), 19.1e9, 0.01e9);
  EXPECT_NEAR(at("Ψ_zero2"), 36.06e9, 0.01e9);
  EXPECT_DOUBLE_EQ(at("Ψ_zero3"), 320e9);
}

}  // namespace
}  // namespace tutti::train::planner
