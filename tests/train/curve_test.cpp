// Every mode trains the same model: its loss at each step is that of one process with the whole batch.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

constexpr int kSteps = 30;

TrainOptions options_for(int ranks, DataParallelMode mode = DataParallelMode::Ddp) {
  TrainOptions options;
  options.model = {.layers = 4, .width = 32, .heads = 4, .length = 32};
  options.batch = 8;
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  options.data_parallel.first_bucket = 10 << 10;  // several buckets, although the model is small
  options.data_parallel.bucket = 64 << 10;
  return options;
}

/// The losses of 30 steps, the same on all ranks, and then the gradients' norms: Adam alone would hide a wrong factor.
std::vector<double> curve(const TrainOptions& options, int steps = kSteps) {
  std::vector<std::vector<double>> losses(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    std::vector<double>& mine = losses[static_cast<size_t>(comm.rank())];
    std::vector<double> norms;
    for (int i = 0; i < steps; ++i) {
      const StepReport report = trainer.step();
      mine.push_back(report.loss);
      norms.push_back(report.gradient_norm);
    }
    mine.insert(mine.end(), norms.begin(), norms.end());
  });
  for (const auto& of_rank : losses) EXPECT_EQ(of_rank, losses[0]);
  return losses[0];
}

const std::vector<double>& one_process() {
  static const std::vector<double> losses = curve(options_for(1));
  return losses;
}

void expect_same_curve(const std::vector<double>& losses) {
  ASSERT_EQ(losses.size(), one_process().size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / one_process()[i], 1, i < size_t{kSteps} ? 1e-4 : 1e-3) << "step " << i % size_t{kSteps} + 1;
  }
}

TEST(Curve, LossFalls) {
  EXPECT_NEAR(one_process().front(), std::log(256), 0.1);
  EXPECT_LT(one_process()[kSteps - 1], 0.75 * one_process().front());
}

TEST(Curve, DdpIsOneProcess) {
  for (const int ranks : {2, 4}) expect_same_curve(curve(options_for(ranks)));
}

TEST(Curve, ParameterServerIsOneProcess) {
  for (const int ranks : {1, 2, 4}) expect_same_curve(curve(options_for(ranks, DataParallelMode::ParameterServer)));
}

// The units' columns, rows and heads are cut; the ends are whole on every rank.
TEST(Curve, SplitBlocksAreOneProcess) {
  TrainOptions options = options_for(2);
  options.mesh.tp = 2;
  expect_same_curve(curve(options));
}

// bf16 has 8 bits: the curve is near, not the same.
TEST(Curve, Bf16LearnsAsWell) {
  for (const bool wire_alone : {false, true}) {
    TrainOptions options = options_for(2);
    (wire_alone ? options.data_parallel.communication : options.data_parallel.weights) = DType::BF16;
    EXPECT_NEAR(curve(options)[kSteps - 1] / one_process()[kSteps - 1], 1, 0.05);
  }
}

TEST(Curve, AccumulationIsOneBatch) {
  TrainOptions options = options_for(2);
  options.micro_batches = 2;
  expect_same_curve(curve(options));
}

TEST(Curve, ReproducibleDdpIsAccumulationBitForBit) {
  TrainOptions two = options_for(2), one = options_for(1);
  two.reproducible = one.reproducible = true;
  one.micro_batches = 2;
  EXPECT_EQ(curve(two), curve(one));
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
              "the number of heads (5) does not divide the width (32)");
    EXPECT_EQ(complaint([](TrainOptions& o) { o.micro_batches = 3; }),
              "the batch of 8 sequences cannot be divided by dp 1 x ep 1 x 3 micro-batches");
    EXPECT_EQ(complaint([](TrainOptions& o) { o.mesh.tp = 2; }),
              "rank 0: the mesh dp 1 x pp 1 x cp 1 x ep 1 x tp 2 has 2 ranks, but there are 1: pp x cp x ep x tp is 2, "
              "which does not divide 1; what does: 1");
  });
}

}  // namespace
}  // namespace tutti::train
