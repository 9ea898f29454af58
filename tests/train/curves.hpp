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

/// What 30 steps report.
struct Curve {
  std::vector<double> losses, norms;  // norms: of the gradients, before clipping
};

/// The same on all ranks. `inspect` is called on each rank after the last step.
inline Curve curve_of(const TrainOptions& options, const std::function<void(Trainer&)>& inspect = {}) {
  std::vector<Curve> curves(static_cast<size_t>(options.mesh.ranks()));
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    Curve& curve = curves[static_cast<size_t>(comm.rank())];
    for (int i = 0; i < 30; ++i) {
      const StepReport report = trainer.step();
      curve.losses.push_back(report.loss);
      curve.norms.push_back(report.gradient_norm);
    }
    if (inspect) inspect(trainer);
  });
  for (const Curve& curve : curves) {
    EXPECT_EQ(curve.losses, curves[0].losses);
    EXPECT_EQ(curve.norms, curves[0].norms);
  }
  return curves[0];
}

/// Adam hides a gradient's wrong scale from the losses: the norms show it.
inline void expect_same_curve(const Curve& curve, const Curve& expected) {
  ASSERT_EQ(curve.losses.size(), expected.losses.size());
  for (size_t i = 0; i < curve.losses.size(); ++i) {
    EXPECT_NEAR(curve.losses[i] / expected.losses[i], 1, 1e-4) << "step " << i + 1;
    EXPECT_NEAR(curve.norms[i] / expected.norms[i], 1, 1e-4) << "step " << i + 1;
  }
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
