// Every mode trains the same model: its loss at each step is that of one process with the whole batch.
#include <gtest/gtest.h>

#include <cmath>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

TrainOptions options_for(int ranks, DataParallelMode mode = DataParallelMode::Ddp) {
  TrainOptions options = small_gpt();
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  options.data_parallel.first_bucket = 10 << 10;  // several buckets, although the model is small
  options.data_parallel.bucket = 64 << 10;
  return options;
}

const Curve& one_process() {
  static const Curve kCurve = curve_of(options_for(1));
  return kCurve;
}

void expect_one_process(const TrainOptions& options) { expect_same_curve(curve_of(options), one_process()); }

TEST(Curve, LossFalls) {
  EXPECT_NEAR(one_process().losses.front(), std::log(256), 0.1);
  EXPECT_LT(one_process().losses.back(), 0.75 * one_process().losses.front());
}

TEST(Curve, DdpIsOneProcess) {
  for (const int ranks : {2, 4}) expect_one_process(options_for(ranks));
}

TEST(Curve, ParameterServerIsOneProcess) {
  for (const int ranks : {1, 2, 4}) expect_one_process(options_for(ranks, DataParallelMode::ParameterServer));
}

// bf16 has 8 bits: the curve is near, not the same.
TEST(Curve, Bf16LearnsAsWell) {
  for (const bool wire_alone : {false, true}) {
    TrainOptions options = options_for(2);
    (wire_alone ? options.data_parallel.communication : options.data_parallel.weights) = DType::BF16;
    EXPECT_NEAR(curve_of(options).losses.back() / one_process().losses.back(), 1, 0.05);
  }
}

TEST(Curve, AccumulationIsOneBatch) {
  TrainOptions options = options_for(2);
  options.micro_batches = 2;
  expect_one_process(options);
}

TEST(Curve, ReproducibleDdpIsAccumulationBitForBit) {
  TrainOptions two = options_for(2), one = options_for(1);
  two.reproducible = one.reproducible = true;
  one.micro_batches = 2;
  const Curve ranks = curve_of(two), micro_batches = curve_of(one);
  EXPECT_EQ(ranks.losses, micro_batches.losses);
  EXPECT_EQ(ranks.norms, micro_batches.norms);
}

TEST(Trainer, NamesWhatDoesNotDivide) {
  run_world(1, [](Communicator& world) {
    const auto complaint = [&](const std::function<void(TrainOptions&)>& change) -> std::string {
      TrainOptions options = options_for(1);
      change(options);
      try {
        Trainer(world, options, sample_text());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::InvalidArgument);
        return error.what();
      }
      return "none";
    };
    EXPECT_EQ(complaint([](TrainOptions& o) { o.model.heads = 5; }),
              "the number of heads (5) does not divide the width (32); what does: 1, 2, 4, 8, 16, 32");
    EXPECT_EQ(complaint([](TrainOptions& o) { o.micro_batches = 3; }),
              "the batch of 8 sequences cannot be divided by dp 1 x ep 1 x 3 micro-batches: 6 or 9 can");
    EXPECT_EQ(complaint([](TrainOptions& o) { o.mesh.tp = 2; }),
              "the mesh dp 1 x pp 1 x cp 1 x ep 1 x tp 2 has 2 ranks, but there are 1: pp x cp x ep x tp is 2, "
              "which does not divide 1; what does: 1");
  });
}

}  // namespace
}  // namespace tutti::train
