// Times of collectives that are given, in place of rings.
#include "train/planner/call_times.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

/// A call of n ranks, k of a host, takes n + k/8 seconds and one for each MiB.
CallTimes::Curve curve_of(Call, Group group) {
  CallTimes::Curve curve;
  for (int power = CallTimes::kFirst; power <= CallTimes::kLast; ++power) {
    curve.push_back(static_cast<double>(group.ranks) + static_cast<double>(group.in_host) / 8 + std::exp2(power - 20));
  }
  return curve;
}

TEST(CallTimes, AreReadOffALineBetweenSizes) {
  CallTimes times(curve_of);
  EXPECT_DOUBLE_EQ(times.seconds(Call::AllReduce, {4, 2}, 1 << 20), 4.25 + 1);
  EXPECT_DOUBLE_EQ(times.seconds(Call::AllReduce, {4, 2}, 3 << 20), 4.25 + 3);
  EXPECT_DOUBLE_EQ(times.seconds(Call::AllReduce, {4, 2}, 1e12), 4.25 + 1e12 / (1 << 20));  // beyond the last size
  EXPECT_DOUBLE_EQ(times.seconds(Call::AllReduce, {4, 2}, 1), 4.25 + std::exp2(-10));       // below the first
}

TEST(CallTimes, AreAskedForOnce) {
  int asked = 0;
  CallTimes times([&](Call call, Group group) { return ++asked, curve_of(call, group); });
  for (const double bytes : {1e3, 1e6, 1e9}) times.seconds(Call::AllGather, {8, 8}, bytes);
  EXPECT_EQ(asked, 1);
  times.seconds(Call::ReduceScatter, {8, 8}, 1e6);
  times.seconds(Call::AllGather, {8, 4}, 1e6);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(times.curves().size(), 3u);
}

Scenario scenario_of(const char* name, int64_t gpus) {
  Scenario scenario;
  for (const NamedModel& model : named_models()) {
    if (std::string(model.name) == name) scenario.model = completed(model.model);
  }
  scenario.cluster.gpus = gpus;
  scenario.job.batch = 64;
  return scenario;
}

/// With all parts, and its calls.
struct Planned {
  Planned(const Scenario& scenario, const Layout& layout) : values(values_of(scenario)) {
    set_layout(values, layout);
    step_sheet().evaluate(values, Part::Layout, Part::Volume);
    calls = calls_of(values);
    if (scenario.times != nullptr) scenario.times->set(values);
    step_sheet().evaluate(values, Part::Time, Part::Time);
  }
  double operator[](const char* name) const { return values[step_sheet().slot(name)]; }
  std::vector<double> values;
  std::vector<StepCall> calls;
};

TEST(CallTimes, TheCallsOfAStep) {
  // tp 4 and dp 16 on hosts of 8: two ranks of a data group share a host.
  const Planned found(scenario_of("7b", 64), {.dp = 16, .tp = 4, .zero = 3});
  ASSERT_EQ(found.calls.size(), 4u);
  EXPECT_EQ(found.calls[0].call, Call::ReduceScatter);  // the halves of an all-reduce, with sequence parallelism
  EXPECT_EQ(found.calls[1].call, Call::AllGather);
  EXPECT_EQ(found.calls[0].group, (Group{4, 4}));
  EXPECT_EQ(found.calls[0].bytes, 2.0 * 4096 * 4096);
  EXPECT_EQ(found.calls[2].call, Call::ReduceScatter);
  EXPECT_STREQ(found.calls[2].row, "t_rs");
  EXPECT_EQ(found.calls[2].group, (Group{16, 2}));
  EXPECT_EQ(found.calls[2].bytes, 2 * 7e9 / 4 / 32);  // of a layer
  EXPECT_EQ(found.calls[2].count, 32);
}

TEST(CallTimes, WithoutZeroOneAllReduceIsBothHalves) {
  Scenario scenario = scenario_of("7b", 8);
  scenario.times = std::make_shared<CallTimes>(curve_of);
  const Planned found(scenario, {.dp = 8});
  ASSERT_EQ(found.calls.size(), 2u);
  EXPECT_EQ(found.calls[0].call, Call::AllReduce);
  EXPECT_EQ(found.calls[1].call, Call::AllReduce);
  const double one = 8 + 8.0 / 8 + 2 * 7e9 / 32 / (1 << 20);
  EXPECT_DOUBLE_EQ(found["t_rs"], 32 * one / 2);
  EXPECT_DOUBLE_EQ(found["T_dp"], 32 * one);
}

TEST(CallTimes, ExpertsStagesAndSequences) {
  const Planned experts(scenario_of("8x7b", 64), {.dp = 4, .pp = 2, .ep = 8});
  ASSERT_EQ(experts.calls.size(), 6u);
  EXPECT_EQ(experts.calls[0].call, Call::AllToAll);
  EXPECT_EQ(experts.calls[0].group, (Group{8, 8}));
  EXPECT_STREQ(experts.calls[1].row, "t_pp");
  EXPECT_EQ(experts.calls[1].group, (Group{2, 1}));   // the next stage is on another host
  EXPECT_EQ(experts.calls[2].group, (Group{32, 8}));  // dense parameters: all of dp and ep
  EXPECT_EQ(experts.calls[4].group, (Group{4, 1}));   // those of experts: dp alone
  const Planned ring(scenario_of("7b", 8), {.dp = 2, .cp = 4});
  EXPECT_STREQ(ring.calls[0].row, "t_cp");
  EXPECT_EQ(ring.calls[0].call, Call::Message);
  EXPECT_EQ(ring.calls[0].count, 3);
  EXPECT_EQ(ring.calls[0].group, (Group{2, 2}));
  EXPECT_TRUE(Planned(scenario_of("7b", 1), {}).calls.empty());
}

TEST(CallTimes, TheSearchUsesThem) {
  Scenario scenario = scenario_of("7b", 8);
  const double rings = search(scenario, {.dp = 8, .zero = 1}, 1).best.front().at("t_rs");
  scenario.times = std::make_shared<CallTimes>(curve_of);
  const double given = search(scenario, {.dp = 8, .zero = 1}, 1).best.front().at("t_rs");
  EXPECT_LT(rings, 1);
  EXPECT_DOUBLE_EQ(given, 32 * (8 + 1 + 2 * 7e9 / 32 / (1 << 20)));
}

}  // namespace
}  // namespace tutti::train::planner
