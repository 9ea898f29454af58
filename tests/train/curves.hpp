// Loss curves of small models: what tests of the modes compare.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {

/// Four small blocks, 8 sequences a step.
inline TrainOptions small_gpt() {
  TrainOptions options;
  options.model = {.layers = 4, .width = 32, .heads = 4, .length = 32};
  options.batch = 8;
  return options;
}

/// The losses of 30 steps; the same on all ranks. `inspect` is called on each rank after the last.
inline std::vector<double> losses_of(const TrainOptions& options, const std::function<void(Trainer&)>& inspect = {}) {
  std::vector<std::vector<double>> losses(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    for (int i = 0; i < 30; ++i) losses[static_cast<size_t>(comm.rank())].push_back(trainer.step().loss);
    if (inspect) inspect(trainer);
  });
  for (const auto& of_rank : losses) EXPECT_EQ(of_rank, losses[0]);
  return losses[0];
}

inline void expect_same_losses(const std::vector<double>& losses, const std::vector<double>& expected) {
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i] / expected[i], 1, 1e-4) << "step " << i + 1;
}

/// The text of the error in which these options end on every rank; that of rank 0.
inline std::string refusal(const TrainOptions& options) {
  std::vector<std::string> texts(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    try {
      const Trainer trainer(comm, options, sample_text());
    } catch (const Error& error) {
      texts[static_cast<size_t>(comm.rank())] = error.what();
    }
  });
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  return texts[0];
}

}  // namespace tutti::train
