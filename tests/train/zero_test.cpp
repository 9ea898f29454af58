// ZeRO: the same curve as one process, whatever is sharded.
#include <gtest/gtest.h>

#include "train/curves.hpp"
#include "train/zero_options.hpp"

namespace tutti::train {
namespace {

const Curve& one_process() {
  static const Curve kCurve = curve_of(zero_options(1, DataParallelMode::Ddp));
  return kCurve;
}

void expect_one_process(const TrainOptions& options) { expect_same_curve(curve_of(options), one_process()); }

class Zero : public testing::TestWithParam<DataParallelMode> {};

TEST_P(Zero, IsOneProcess) {
  for (const int ranks : {1, 2, 4, 8}) {
    SCOPED_TRACE(ranks);
    expect_one_process(zero_options(ranks, GetParam()));
  }
}

TEST_P(Zero, AccumulatesMicroBatches) {
  TrainOptions options = zero_options(2, GetParam());
  options.micro_batches = 4;
  expect_one_process(options);
}

TEST_P(Zero, ClipsByTheGlobalNorm) {
  const auto clipped = [](DataParallelMode mode, int ranks) {
    TrainOptions options = zero_options(ranks, mode);
    options.clip = 0.1;
    return curve_of(options);
  };
  const Curve one = clipped(DataParallelMode::Ddp, 1);
  for (const double norm : one.norms) EXPECT_GT(norm, 0.1) << "is to be clipped";
  expect_same_curve(clipped(GetParam(), 4), one);
}

// Two ranks' sums have one order, so sharding changes no bit of what is computed.
TEST_P(Zero, IsDdpBitForBitOnTwoRanks) {
  const auto trained = [](DataParallelMode mode) {
    TrainOptions options = zero_options(2, mode);
    options.clip = 0;  // the norm alone is summed in another order
    std::vector<std::vector<float>> ranks(2);
    run_world(2, [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      for (int i = 0; i < 10; ++i) trainer.step();
      std::vector<float>& all = ranks[static_cast<size_t>(comm.rank())];
      for (size_t unit = 0; unit < trainer.units().size(); ++unit) {
        std::vector<float> values(trainer.units()[unit]->layout().count());
        trainer.data_parallel().read(unit, values);
        all.insert(all.end(), values.begin(), values.end());
      }
    });
    EXPECT_EQ(ranks[0], ranks[1]);
    return ranks[0];
  };
  EXPECT_EQ(trained(GetParam()), trained(DataParallelMode::Ddp));
}

TEST_P(Zero, IsOneProcessWithTensorParallelism) {
  TrainOptions options = zero_options(1, DataParallelMode::Ddp);
  options.model.width = 20;
  options.model.heads = 4;  // tp must divide them
  const Curve one = curve_of(options);
  options.data_parallel.mode = GetParam();
  options.mesh = {.dp = 2, .tp = 2};
  expect_same_curve(curve_of(options), one);
}

TEST_P(Zero, LearnsInBf16) {
  TrainOptions options = zero_options(2, GetParam());
  options.data_parallel.weights = DType::BF16;
  const std::vector<double> losses = curve_of(options).losses;
  EXPECT_LT(losses.back(), 0.9 * losses.front());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i] / one_process().losses[i], 1, 0.02) << "step " << i + 1;
}

INSTANTIATE_TEST_SUITE_P(Stages, Zero, testing::Values(kZero1, kZero2, kZero3), [](const auto& of) {
  return std::to_string(static_cast<int>(of.param) - static_cast<int>(kZero1) + 1);
});

TEST(Zero3, KeepsWeightsAfterForwardIfAsked) {
  TrainOptions options = zero_options(2, kZero3);
  options.data_parallel.reshard_after_forward = false;
  expect_one_process(options);
}

/// Three units of 10, 20 and 30 parameters under ZeRO-3, on two ranks.
void with_three_units(const std::function<void(DataParallel&, const std::vector<UnitState>&, const Ledger&)>& body) {
  run_world(2, [&](Communicator& comm) {
    Counters counters;
    Mesh mesh(comm, {.dp = 2}, counters);
    const auto device = make_host_device();
    Ledger ledger(*device);
    std::vector<Layout> layouts(3);
    std::vector<UnitState> units;
    for (size_t i = 0; i < layouts.size(); ++i) {
      layouts[i].add(std::string("w").append(std::to_string(i)), {10 * (i + 1)}, Initial::one());
      units.push_back({.layout = &layouts[i]});
    }
    const DataParallelOptions options{.mode = kZero3};
    const auto zero = make_data_parallel(options, ledger, {mesh.replicas(), mesh.expert_replicas()});
    zero->attach(units);
    for (size_t i = 0; i < layouts.size(); ++i) zero->load(i, initial_values(layouts[i], 1));
    body(*zero, units, ledger);
  });
}

TEST(Zero3, PrefetchesTheUnitThatItIsToldAndReleasesTheLast) {
  with_three_units([](DataParallel& zero, const std::vector<UnitState>& units, const Ledger& ledger) {
    const auto buffers = [&] { return ledger.held(Kind::Buffers) / sizeof(float); };
    EXPECT_EQ(buffers(), 0U);
    zero.parameters_needed(0, Pass::Forward);
    EXPECT_EQ(units[0].weights.count, 10U);
    zero.parameters_next(1);
    EXPECT_TRUE(units[1].weights.empty());
    EXPECT_EQ(buffers(), 10U + 20U) << "unit 1 is on its way";
    zero.parameters_done(0, Pass::Forward);
    EXPECT_TRUE(units[0].weights.empty());
    zero.parameters_needed(1, Pass::Forward);
    EXPECT_EQ(buffers(), 20U) << "only the schedule knows what comes next";
    zero.parameters_next(2);
    EXPECT_EQ(buffers(), 20U + 30U);
    zero.parameters_done(1, Pass::Forward);
    zero.parameters_needed(2, Pass::Forward);
    EXPECT_EQ(buffers(), 30U);
    zero.parameters_done(2, Pass::Forward);
    zero.parameters_needed(2, Pass::Backward);
    zero.parameters_next(1);
    EXPECT_EQ(buffers(), 30U + 20U);
    for (size_t i = 0; i < 30; ++i) EXPECT_EQ(units[2].weights.f32()[i], 1);
    zero.parameters_done(2, Pass::Backward);
    zero.parameters_needed(1, Pass::Backward);
    EXPECT_EQ(buffers(), 20U);
  });
}

// Weights that are still gathered when the optimizer steps are old: they must not be used again.
TEST(Zero3, ForgetsGatheredWeightsAtAStep) {
  with_three_units([](DataParallel& zero, const std::vector<UnitState>& units, const Ledger& ledger) {
    zero.start_step();
    zero.parameters_needed(0, Pass::Forward);
    zero.gradients_needed(0);
    for (size_t i = 0; i < 10; ++i) units[0].gradients.f32()[i] = 1;
    zero.gradients_ready(0, true);
    zero.finish_backward();
    EXPECT_EQ(zero.square_sum(), 10);
    zero.step({.rate = 0.5f});
    EXPECT_EQ(ledger.held(Kind::Buffers), 0U);
    zero.parameters_needed(0, Pass::Forward);
    EXPECT_NEAR(units[0].weights.f32()[3], 0.5, 1e-6);
  });
}

}  // namespace
}  // namespace tutti::train
