// ZeRO: the bytes that each rank holds and sends are those of the formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "train/world.hpp"
#include "train/zero_options.hpp"

namespace tutti::train {
namespace {

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
  TrainOptions options = zero_options(ranks, mode);
  options.data_parallel.weights = type;
  train(options, 2, [&, mode = mode, type = type, ranks = ranks](int rank, Trainer& trainer) {
    const size_t all = trainer.parameters(), mine = shards(trainer, ranks)[static_cast<size_t>(rank)];
    for (const auto& unit : trainer.units()) EXPECT_NE(unit->layout().count() % 4, 0U) << "the sizes are to be uneven";
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
  TrainOptions options = zero_options(ranks, mode);
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

// A rank's chunks do not follow each other: what is prefetched at a chunk's end is the unit that the schedule has next.
TEST(Zero3, BuffersAreThoseStatedInPipelines) {
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZeroBubble}) {
    SCOPED_TRACE(name_of(kind));
    TrainOptions options = zero_options(2, kZero3);
    options.model.layers = 6;
    options.mesh.pp = 2;
    options.micro_batches = 4;
    options.pipeline = {kind, kind == ScheduleKind::Interleaved ? 2 : 1};
    train(options, 2, [&](int /*rank*/, Trainer& trainer) {
      size_t unit = 0;
      for (const auto& u : trainer.units()) unit = std::max(unit, u->layout().count());
      const size_t batch = 3 * sizeof(int32_t) * options.batch / 2 * options.model.length;
      trainer.ledger().reset_peaks();
      trainer.step();
      EXPECT_LE(trainer.ledger().peak(Kind::Buffers), batch + 4 * sizeof(float) * unit);
    });
  }
}

TEST_P(ZeroBytes, SentAreThoseOfTheFormula) {
  const auto [mode, type, ranks] = GetParam();
  TrainOptions options = zero_options(ranks, mode);
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
  TrainOptions options = zero_options(2, kZero3);
  options.data_parallel.reshard_after_forward = false;
  train(options, 1, [&](int, Trainer& trainer) {
    EXPECT_NEAR(trainer.counters()[Purpose::Parameters].sent, 4 * static_cast<double>(trainer.parameters()) / 2, 100);
  });
}

}  // namespace
}  // namespace tutti::train
