// Copies of the optimizer's state in memory: taken on N ranks, used on M others after some were lost.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "train/world.hpp"
#include "tutti/train/snapshots.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

constexpr auto kDdp = DataParallelMode::Ddp, kZero1 = DataParallelMode::Zero1, kZero3 = DataParallelMode::Zero3;

TrainOptions options_for(int ranks, DataParallelMode mode, size_t batch = 12) {
  TrainOptions options;
  options.model = {.layers = 2, .width = 21, .heads = 3, .length = 23};
  options.batch = batch;
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  return options;
}

using Memories = std::vector<std::unique_ptr<Snapshots>>;

Memories memories(size_t ranks) {
  Memories all;
  for (size_t rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Snapshots>());
  return all;
}

/// Makes `steps` steps on the ranks whose memories are these, after restoring if asked to, and takes copies behind the
/// steps of `taken`. The losses; none if there was nothing to restore.
std::vector<double> run(const Memories& memory, const TrainOptions& options, bool restores, int steps,
                        const std::vector<int64_t>& taken = {}) {
  std::vector<double> losses;
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Snapshots& mine = *memory[static_cast<size_t>(comm.rank())];
    Trainer trainer(comm, options, sample_text());
    if (restores && !trainer.restore(mine)) return;
    for (int i = 0; i < steps; ++i) {
      const StepReport report = trainer.step();
      if (comm.rank() == 0) losses.push_back(report.loss);
      if (std::count(taken.begin(), taken.end(), report.step) > 0) trainer.snapshot(mine);
    }
  });
  return losses;
}

TEST(SnapshotsInMemory, AreEnoughWithoutOneRankWhateverTheOthersAre) {
  const std::vector<double> whole = run(memories(1), options_for(1, kDdp), false, 10);
  const std::pair<DataParallelMode, DataParallelMode> modes[] = {{kZero3, kZero3}, {kZero1, kDdp}, {kDdp, kZero3}};
  for (const auto& [from, to] : modes) {
    for (const size_t lost : {0, 3}) {
      Memories memory = memories(4);
      run(memory, options_for(4, from), false, 7, {2, 5});
      memory.erase(memory.begin() + static_cast<ptrdiff_t>(lost));
      const std::vector<double> rest = run(memory, options_for(3, to), true, 5);
      ASSERT_EQ(rest.size(), 5u);
      for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-5) << "step " << 6 + i;
    }
  }
}

TEST(SnapshotsInMemory, GoToNewProcessesThatHaveNone) {
  const std::vector<double> whole = run(memories(1), options_for(1, kDdp), false, 10);
  Memories memory = memories(2);
  run(memory, options_for(2, kZero3), false, 5, {5});
  memory[0] = std::make_unique<Snapshots>();
  for (int i = 0; i < 2; ++i) memory.push_back(std::make_unique<Snapshots>());
  const std::vector<double> rest = run(memory, options_for(4, kZero1), true, 5);
  ASSERT_EQ(rest.size(), 5u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-5) << "step " << 6 + i;
}

TEST(SnapshotsInMemory, OfAStepThatNotAllHaveAreLeftForTheOneBefore) {
  const std::vector<double> whole = run(memories(1), options_for(1, kDdp), false, 10);
  Memories memory = memories(4);
  run(memory, options_for(4, kZero3), false, 5, {5});
  // Rank 2 has the copies of step 7 and the others have not: it was the only one whose barrier ended.
  Memories later = memories(4);
  for (size_t rank = 0; rank < 4; ++rank) std::swap(later[rank], memory[rank]);
  run(memory, options_for(4, kZero3), false, 7, {7});
  std::swap(later[3], memory[3]);  // later: steps 5, 5, 5 and, of ranks 3 and 1, 7
  const std::vector<double> rest = run(later, options_for(4, kZero3), true, 5);
  ASSERT_EQ(rest.size(), 5u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-5) << "step " << 6 + i;
}

TEST(SnapshotsInMemory, OfOneStepOnFourRanksAndOnThreeAreNotMixed) {
  const std::vector<double> whole = run(memories(1), options_for(1, kDdp), false, 10);
  Memories four = memories(4), three = memories(3), mixed;
  run(four, options_for(4, kZero3), false, 5, {5});
  run(three, options_for(3, kZero3), false, 5, {5});
  // Of the four ranks' copies those of 1 and 3 are here, and all of the three ranks': four in all.
  mixed.push_back(std::move(three[0]));
  mixed.push_back(std::move(four[1]));
  mixed.push_back(std::move(three[1]));
  const std::vector<double> rest = run(mixed, options_for(3, kZero1), true, 5);
  ASSERT_EQ(rest.size(), 5u);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-5) << "step " << 6 + i;
}

TEST(SnapshotsInMemory, AreNotEnoughWithoutBothRanksThatHaveAPart) {
  Memories memory = memories(4);
  run(memory, options_for(4, kZero3), false, 3, {3});
  memory[1] = std::make_unique<Snapshots>();
  memory[3] = std::make_unique<Snapshots>();
  EXPECT_TRUE(run(memory, options_for(4, kZero3), true, 1).empty());
}

TEST(SnapshotsInMemory, OfAnotherModelAreRefused) {
  Memories memory = memories(2);
  run(memory, options_for(2, kZero3), false, 2, {2});
  TrainOptions other = options_for(2, kZero3);
  other.model.layers = 3;
  try {
    run(memory, other, true, 1);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Mismatch) << error.what();
    EXPECT_NE(std::string(error.what()).find("layers is 2, and here it is 3"), std::string::npos) << error.what();
  }
}

TEST(SnapshotsInMemory, TakeTwiceTheStateOfARank) {
  Memories memory = memories(3);
  run(memory, options_for(3, kZero3), false, 4, {2, 4});
  const size_t all = memory[0]->bytes() + memory[1]->bytes() + memory[2]->bytes();
  Memories alone = memories(1);
  run(alone, options_for(1, kDdp), false, 4, {4});
  EXPECT_EQ(all, 2 * alone[0]->bytes()) << "each part once at its rank and once at another";
}

}  // namespace
}  // namespace tutti::train
