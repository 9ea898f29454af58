// Pipelines that run: the same loss as one process under every schedule, and what the stages hold and wait for.
#include "tutti/train/pipeline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

TrainOptions options_for(const MeshShape& mesh, ScheduleKind schedule, int chunks = 1, size_t layers = 4) {
  TrainOptions options;
  options.model = {.layers = layers, .width = 32, .heads = 4, .length = 32};
  options.batch = 8;
  options.mesh = mesh;
  options.micro_batches = mesh.pp > 1 ? 8 / static_cast<size_t>(mesh.dp) : 1;
  options.pipeline = {schedule, chunks};
  return options;
}

std::vector<double> curve(const TrainOptions& options, int steps = 30) {
  std::vector<std::vector<StepReport>> reports(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    for (int i = 0; i < steps; ++i) reports[static_cast<size_t>(comm.rank())].push_back(trainer.step());
  });
  std::vector<double> losses;
  for (const StepReport& report : reports[0]) losses.push_back(report.loss);
  for (const auto& of_rank : reports) {
    for (size_t i = 0; i < losses.size(); ++i) {
      EXPECT_EQ(of_rank[i].loss, losses[i]);
      EXPECT_EQ(of_rank[i].gradient_norm, reports[0][i].gradient_norm);
    }
  }
  return losses;
}

void expect_one_process(const TrainOptions& options) {
  static std::map<size_t, std::vector<double>> references;  // by layers
  std::vector<double>& reference = references[options.model.layers];
  if (reference.empty()) reference = curve(options_for({}, ScheduleKind::OneFOneB, 1, options.model.layers));
  const std::vector<double> losses = curve(options);
  ASSERT_EQ(losses.size(), reference.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / reference[i], 1, 1e-4) << "step " << i + 1;
}

TEST(Pipeline, EveryScheduleIsOneProcess) {
  for (const int pp : {2, 4}) {
    for (const ScheduleKind schedule : {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB,
                                        ScheduleKind::Interleaved, ScheduleKind::ZeroBubble}) {
      SCOPED_TRACE(std::string(name_of(schedule)) + " pp " + std::to_string(pp));
      expect_one_process(options_for({.pp = pp}, schedule));
    }
  }
}

TEST(Pipeline, InterleavedIsOneProcess) {
  expect_one_process(options_for({.pp = 2}, ScheduleKind::Interleaved, 2));
  expect_one_process(options_for({.pp = 2}, ScheduleKind::Interleaved, 3));
  expect_one_process(options_for({.pp = 4}, ScheduleKind::Interleaved, 2, 6));
}

TEST(Pipeline, WithDataParallelismIsOneProcess) {
  expect_one_process(options_for({.dp = 2, .pp = 2}, ScheduleKind::OneFOneB));
  expect_one_process(options_for({.dp = 2, .pp = 2}, ScheduleKind::ZeroBubble));
  expect_one_process(options_for({.dp = 2, .pp = 2}, ScheduleKind::Interleaved, 2));
}

TEST(Stages, AreBalanced) {
  const auto sizes = [](const std::vector<double>& costs, int stages) {
    std::vector<size_t> lengths;
    for (const Chunk& chunk : balanced_stages(costs, stages)) lengths.push_back(chunk.last - chunk.first);
    return lengths;
  };
  using Sizes = std::vector<size_t>;
  EXPECT_EQ(sizes({1, 1, 1, 1}, 2), (Sizes{2, 2}));
  EXPECT_EQ(sizes({1, 5, 1, 1, 1, 1}, 2), (Sizes{2, 4}));
  EXPECT_EQ(sizes({3, 1, 1, 1}, 2), (Sizes{1, 3}));
  EXPECT_EQ(sizes({1, 1, 1}, 3), (Sizes{1, 1, 1}));
  EXPECT_THROW(balanced_stages(std::vector<double>{1, 1}, 3), Error);
}

}  // namespace
}  // namespace tutti::train
