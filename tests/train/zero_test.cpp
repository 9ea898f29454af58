// ZeRO: the same curve as one process, and bytes held and sent as the formulas say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

constexpr auto kZero1 = DataParallelMode::Zero1, kZero2 = DataParallelMode::Zero2, kZero3 = DataParallelMode::Zero3;

/// A width of 20 and 3 in a length: no unit's parameters can be divided by 8.
TrainOptions options_for(int ranks, DataParallelMode mode) {
  TrainOptions options;
  options.model = {.layers = 4, .width = 20, .heads = 4, .length = 23};
  options.batch = 8;
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  return options;
}

std::vector<double> curve(const TrainOptions& options, int steps = 30) {
  std::vector<std::vector<double>> losses(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    for (int i = 0; i < steps; ++i) losses[static_cast<size_t>(comm.rank())].push_back(trainer.step().loss);
  });
  for (const auto& of_rank : losses) EXPECT_EQ(of_rank, losses[0]);
  return losses[0];
}

const std::vector<double>& one_process() {
  static const std::vector<double> losses = curve(options_for(1, DataParallelMode::Ddp));
  return losses;
}

void expect_same_curve(const std::vector<double>& losses) {
  ASSERT_EQ(losses.size(), one_process().size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / one_process()[i], 1, 1e-4) << "step " << i + 1;
}

class Zero : public testing::TestWithParam<DataParallelMode> {};

TEST_P(Zero, IsOneProcess) {
  for (const int ranks : {1, 2, 4, 8}) {
    SCOPED_TRACE(ranks);
    expect_same_curve(curve(options_for(ranks, GetParam())));
  }
}

TEST_P(Zero, AccumulatesMicroBatches) {
  TrainOptions options = options_for(2, GetParam());
  options.micro_batches = 4;
  expect_same_curve(curve(options));
}

TEST_P(Zero, ClipsByTheGlobalNorm) {
  const auto norms = [](DataParallelMode mode, int ranks) {
    TrainOptions options = options_for(ranks, mode);
    options.clip = 0.1;
    std::vector<StepReport> reports;
    run_world(ranks, [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      for (int i = 0; i < 10; ++i) {
        const StepReport report = trainer.step();
        if (comm.rank() == 0) reports.push_back(report);
      }
    });
    return reports;
  };
  const auto one = norms(DataParallelMode::Ddp, 1), four = norms(GetParam(), 4);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_GT(one[i].gradient_norm, 0.1) << "is to be clipped";
    EXPECT_NEAR(four[i].gradient_norm / one[i].gradient_norm, 1, 1e-3);
    EXPECT_NEAR(four[i].loss / one[i].loss, 1, 1e-4);
  }
}

TEST_P(Zero, LearnsInBf16) {
  TrainOptions options = options_for(2, GetParam());
  options.data_parallel.weights = DType::BF16;
  const std::vector<double> losses = curve(options);
  EXPECT_LT(losses.back(), 0.9 * losses.front());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / one_process()[i], 1, 0.02) << "step " << i + 1;
}

INSTANTIATE_TEST_SUITE_P(Stages, Zero, testing::Values(kZero1, kZero2, kZero3), [](const auto& of) {
  return std::to_string(static_cast<int>(of.param) - static_cast<int>(kZero1) + 1);
});

TEST(Zero3, KeepsWeightsAfterForwardIfAsked) {
  TrainOptions options = options_for(2, kZero3);
  options.data_parallel.reshard_after_forward = false;
  expect_same_curve(curve(options));
}

/// Each rank's elements of units whose parameters n ranks share without padding.
std::vector<size_t> shards(const Trainer& trainer, size_t ranks) {
  std::vector<size_t> counts(ranks);
  for (const auto& unit : trainer.units()) {
    const size_t count = unit->layout().count();
    for (size_t rank = 0; rank < ranks; ++rank) counts[rank] += count / ranks + (rank < count % ranks ? 1 : 0);
  }
  return counts;
}

/// Runs `steps` steps and hands each rank's trainer to `look`.
void train(const TrainOptions& options, int steps, const std::function<void(int, Trainer&)>& look) {
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    trainer.counters().reset();
    for (int i = 0; i < steps; ++i) trainer.step();
    look(comm.rank(), trainer);
  });
}

class ZeroBytes : public testing::TestWithParam<std::tuple<DataParallelMode, DType, int>> {};

TEST_P(ZeroBytes, HeldAreThoseOfTheFormula) {
  const auto [mode, type, ranks] = GetParam();
  TrainOptions options = options_for(ranks, mode);
  options.data_parallel.weights = type;
  train(options, 2, [&, mode = mode, type = type, ranks = ranks](int rank, Trainer& trainer) {
    const size_t all = trainer.parameters(), mine = shards(trainer, ranks)[static_cast<size_t>(rank)];
    EXPECT_NE(all % 8, 0U) << "the sizes are to be uneven";
    const size_t width = size_of(type), state = type == DType::BF16 ? 12 : 8;
    const auto held = [&](DataParallelMode from) { return mode >= from ? mine : all; };
    const Ledger& ledger = trainer.ledger();
    EXPECT_EQ(ledger.peak(Kind::Weights), width * held(kZero3));
    EXPECT_EQ(ledger.peak(Kind::Gradients), width * held(kZero2));
    EXPECT_EQ(ledger.peak(Kind::Optimizer), state * held(kZero1));
    // Without padding, shards differ from Ψ/N by less than one element a unit.
    const StateBytes formula = state_bytes(mode, type, static_cast<double>(all), ranks);
    const double peaks =
        static_cast<double>(ledger.peak(Kind::Weights) + ledger.peak(Kind::Gradients) + ledger.peak(Kind::Optimizer));
    EXPECT_NEAR(peaks, formula.all(), 16.0 * static_cast<double>(trainer.units().size()));
    if (type == DType::BF16) {
      const double n = ranks, psi = static_cast<double>(all);
      const double published[] = {16 * psi, 4 * psi + 12 * psi / n, 2 * psi + 14 * psi / n, 16 * psi / n};
      const int stage = mode == DataParallelMode::Ddp ? 0 : static_cast<int>(mode) - static_cast<int>(kZero1) + 1;
      EXPECT_NEAR(formula.all(), published[stage], 1e-6 * psi);
    }
  });
}

TEST_P(ZeroBytes, BuffersAreThoseStated) {
  const auto [mode, type, ranks] = GetParam();
  TrainOptions options = options_for(ranks, mode);
  options.data_parallel.weights = type;
  train(options, 2, [&, mode = mode, type = type](int /*rank*/, Trainer& trainer) {
    size_t unit = 0;  // the largest
    for (const auto& u : trainer.units()) unit = std::max(unit, u->layout().count());
    const size_t tokens = options.batch / static_cast<size_t>(options.mesh.dp) * options.model.length;
    size_t stated = 3 * sizeof(int32_t) * tokens;                 // the batch
    if (type == DType::BF16) stated += 2 * sizeof(float) * unit;  // f32 copies of weights and gradients
    if (mode >= kZero2) stated += 2 * size_of(type) * unit;       // two units' gradients
    if (mode >= kZero3) stated += 2 * size_of(type) * unit;       // two units' weights
    trainer.ledger().reset_peaks();
    trainer.step();
    EXPECT_LE(trainer.ledger().peak(Kind::Buffers), stated);
  });
}

TEST_P(ZeroBytes, SentAreThoseOfTheFormula) {
  const auto [mode, type, ranks] = GetParam();
  TrainOptions options = options_for(ranks, mode);
  options.data_parallel.weights = type;
  constexpr int kSteps = 2;
  double gradients = 0, parameters = 0, psi = 0;
  std::mutex mutex;
  train(options, kSteps, [&, mode = mode, ranks = ranks, type = type](int, Trainer& trainer) {
    const Counters& counters = trainer.counters();
    const std::scoped_lock lock(mutex);
    gradients += counters[Purpose::Gradients].sent;
    parameters += counters[Purpose::Parameters].sent;
    psi = static_cast<double>(trainer.parameters());
    // Each rank, to the elements that the uneven sizes make.
    const double unit = psi * (ranks - 1) / ranks * static_cast<double>(size_of(type)) * kSteps;
    const double uneven = static_cast<double>(2 * trainer.units().size() * size_of(type)) * kSteps;
    const double of_gradients = mode == DataParallelMode::Ddp ? 2 : 1;
    const double of_parameters = mode == DataParallelMode::Ddp ? 0 : mode == kZero3 ? 2 : 1;
    EXPECT_NEAR(counters[Purpose::Gradients].sent, of_gradients * unit, uneven);
    EXPECT_NEAR(counters[Purpose::Parameters].sent, of_parameters * unit, 2 * uneven);
  });
  // Over all ranks, exactly: 2Ψ, 2Ψ, 2Ψ, 3Ψ elements × (N − 1)/N a rank.
  const double times = mode == kZero3 ? 3 : 2;
  EXPECT_NEAR(gradients + parameters, times * psi * (ranks - 1) * static_cast<double>(size_of(type)) * kSteps, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Modes, ZeroBytes,
                         testing::Combine(testing::Values(DataParallelMode::Ddp, kZero1, kZero2, kZero3),
                                          testing::Values(DType::F32, DType::BF16), testing::Values(2, 4)),
                         [](const auto& of) {
                           const auto mode = static_cast<int>(std::get<0>(of.param));
                           return std::string(mode == 0 ? "Ddp" : "Zero" + std::to_string(mode - 1)) +
                                  (std::get<1>(of.param) == DType::BF16 ? "Bf16" : "F32") + "On" +
                                  std::to_string(std::get<2>(of.param));
                         });

TEST(Zero3, SendsWeightsOnceWithoutReshard) {
  TrainOptions options = options_for(2, kZero3);
  options.data_parallel.reshard_after_forward = false;
  train(options, 1, [&](int, Trainer& trainer) {
    EXPECT_NEAR(trainer.counters()[Purpose::Parameters].sent, 4 * static_cast<double>(trainer.parameters()) / 2, 100);
  });
}

}  // namespace
}  // namespace tutti::train
