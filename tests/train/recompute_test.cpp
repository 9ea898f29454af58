// Activation checkpointing: the same bits, with less memory.
#include <gtest/gtest.h>

#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

struct Run {
  std::vector<double> losses;
  size_t activations = 0;  // bytes, at most
};

Run run(bool checkpoint, size_t layers, DataParallelMode mode = DataParallelMode::Ddp, int ranks = 1) {
  TrainOptions options;
  options.model = {.layers = layers, .width = 32, .heads = 4, .length = 32};
  options.batch = 4;
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  options.checkpoint_activations = checkpoint;
  Run result;
  run_world(ranks, [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) losses.push_back(trainer.step().loss);
    EXPECT_EQ(trainer.ledger().held(Kind::Activations), 0U);
    if (comm.rank() == 0) result = {losses, trainer.ledger().peak(Kind::Activations)};
  });
  return result;
}

TEST(ActivationCheckpointing, HasTheSameBits) {
  EXPECT_EQ(run(true, 4).losses, run(false, 4).losses);
  EXPECT_EQ(run(true, 4, DataParallelMode::Zero3, 2).losses, run(false, 4, DataParallelMode::Zero3, 2).losses);
}

// What one more block adds at the peak: its input alone (tokens × width), where without checkpointing it is all that
// the block keeps for backward.
TEST(ActivationCheckpointing, KeepsOnlyInputs) {
  constexpr size_t kInput = 4UL * 32 * 32 * sizeof(float);
  EXPECT_EQ(run(true, 8).activations - run(true, 7).activations, kInput);
  EXPECT_GT(run(false, 8).activations - run(false, 7).activations, 15 * kInput);
}

}  // namespace
}  // namespace tutti::train
