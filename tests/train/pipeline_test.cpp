// Pipelines that run: the same loss as one process under every schedule, and what the stages hold and wait for.
#include "tutti/train/pipeline.hpp"

#include <gtest/gtest.h>

#include <map>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

TrainOptions options_for(const MeshShape& mesh, ScheduleKind schedule, int chunks = 1, size_t layers = 4) {
  TrainOptions options = small_gpt();
  options.model.layers = layers;
  options.mesh = mesh;
  options.micro_batches = mesh.pp > 1 ? 8 / static_cast<size_t>(mesh.dp) : 1;
  options.pipeline = {schedule, chunks};
  return options;
}

void expect_one_process(const TrainOptions& options) {
  static std::map<size_t, Curve> references;  // by layers
  Curve& reference = references[options.model.layers];
  if (reference.losses.empty()) reference = curve_of(options_for({}, ScheduleKind::OneFOneB, 1, options.model.layers));
  expect_same_curve(curve_of(options), reference);
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
