#include "select/blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "select/select.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr uint32_t kMost = 64;
constexpr LineLengths kLines{8 << 10, 32 << 10};

Setting gpus(Rank ranks) {
  const MachineConstants& machine = machine_constants();
  const LinkCost link{machine.cuda_alpha, machine.cuda_beta, machine.cuda_message};
  return {.ranks = ranks,
          .inside = link,
          .between = link,
          .gamma = machine.cuda_fold_gamma,
          .staging = uint64_t{1} << 40,
          .message = 128 << 10};
}

TEST(Blocks, AreTheFewestWithin3PercentOfTheBestPredicted) {
  for (const Rank ranks : {2, 4, 8}) {
    const Setting setting = gpus(ranks);
    for (const auto collective : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
      for (uint64_t bytes = 8; bytes <= uint64_t{1} << 30; bytes *= 4) {
        const Candidate chosen = candidates(collective, bytes, setting).front();
        const plan::Cost cost = chosen.algorithm->cost({collective, ranks});
        const uint64_t window = window_bytes(*chosen.algorithm, setting);
        const auto seconds = [&](uint32_t blocks) {
          return seconds_with_blocks(cost, bytes, window, setting, kLines, blocks);
        };
        double best = seconds(1);
        for (uint32_t blocks = 2; blocks <= kMost; ++blocks) best = std::min(best, seconds(blocks));
        const uint32_t fewest = fewest_blocks(cost, bytes, window, setting, kLines, kMost);
        EXPECT_LE(seconds(fewest), 1.03 * best) << bytes;
        for (uint32_t fewer = 1; fewer < fewest; ++fewer) EXPECT_GT(seconds(fewer), 1.03 * best) << bytes;
      }
    }
  }
}

TEST(Blocks, AreOneForShortCallsAndEnoughToFillTheLinkForLongOnes) {
  const Setting setting = gpus(4);
  const auto blocks = [&](uint64_t bytes, uint32_t most) {
    const Candidate chosen = candidates(Collective::AllReduce, bytes, setting).front();
    const plan::Cost cost = chosen.algorithm->cost({Collective::AllReduce, 4});
    return fewest_blocks(cost, bytes, window_bytes(*chosen.algorithm, setting), setting, kLines, most);
  };
  EXPECT_EQ(blocks(8, kMost), 1U);
  EXPECT_EQ(blocks(4096, kMost), 1U);
  EXPECT_EQ(blocks(32 << 10, kMost), 1U);  // in whole lines
  const double fills = machine_constants().cuda_block_beta / machine_constants().cuda_beta;
  EXPECT_NEAR(blocks(256 << 20, kMost), fills, 1);
  EXPECT_EQ(blocks(256 << 20, 3), 3U);
}

TEST(Blocks, AreFewWhereTheNetworkIsSlow) {
  Setting setting = gpus(2);
  setting.inside.beta = setting.between.beta = 1 / 2e9;
  const Candidate chosen = candidates(Collective::AllGather, 64 << 20, setting).front();
  const plan::Cost cost = chosen.algorithm->cost({Collective::AllGather, 2});
  EXPECT_EQ(fewest_blocks(cost, 64 << 20, window_bytes(*chosen.algorithm, setting), setting, {}, kMost), 1U);
}

}  // namespace
}  // namespace tutti::select
