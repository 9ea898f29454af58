// How wide rows are on GPUs, and by which form messages travel there.
#include <gtest/gtest.h>

#include <algorithm>

#include "select/select.hpp"
#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr uint32_t kMaxWidth = 64;

CostInputs gpus(Rank ranks) {
  const MachineConstants& machine = machine_constants();
  const LinkCost link{machine.cuda_alpha, machine.cuda_beta, machine.cuda_message};
  return {.ranks = ranks,
          .inside = link,
          .between = link,
          .gamma = machine.cuda_fold_gamma,
          .staging = uint64_t{1} << 40,
          .message = 128 << 10,
          .methods = {{.method = &exec::methods::slots},
                      {.method = &exec::methods::ll, .message = 8 << 10, .rounds = 1},
                      {.method = &exec::methods::ll128, .message = 32 << 10, .rounds = 1}},
          .max_width = kMaxWidth,
          .shares_staging = false};
}

Row chosen(uint64_t bytes, const CostInputs& inputs, Collective collective = Collective::AllReduce) {
  return Choices(collective, inputs).row(bytes, {});
}

TEST(Width, IsOneForShortCallsAndEnoughToFillTheLinkForLongOnes) {
  CostInputs inputs = gpus(4);
  EXPECT_EQ(chosen(8, inputs).width, 1U);
  EXPECT_EQ(chosen(1024, inputs).width, 1U);
  const double fills = 2 * machine_constants().cuda_block_local / machine_constants().cuda_beta;  // written, read
  EXPECT_NEAR(chosen(256 << 20, inputs).width, fills, 1);
  inputs.max_width = 3;
  EXPECT_EQ(chosen(256 << 20, inputs).width, 3U);
}

TEST(Width, IsTheFewestWithin3PercentOfTheBestPredicted) {
  for (const Rank ranks : {2, 4, 8}) {
    const CostInputs inputs = gpus(ranks);
    for (const auto collective : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
      for (uint64_t bytes = 8; bytes <= uint64_t{1} << 30; bytes *= 4) {
        const Row row = chosen(bytes, inputs, collective);
        if (row.method != &exec::methods::slots) continue;  // the others have one block
        const auto seconds = [&](uint32_t width) {
          plan::Cost cost = row.algorithm->cost({collective, ranks});
          exec::Prices prices = prices_of(inputs);
          row.method->price(cost, prices, ranks, width);
          return predict(cost, bytes, width == 1 ? row.window : std::min(row.window, bytes / width), prices).seconds();
        };
        double best = seconds(1);
        for (uint32_t width = 2; width <= kMaxWidth; ++width) best = std::min(best, seconds(width));
        EXPECT_LE(seconds(row.width), 1.03 * best) << bytes;
        for (uint32_t fewer = 1; fewer < row.width; ++fewer) EXPECT_GT(seconds(fewer), 1.03 * best) << bytes;
      }
    }
  }
}

TEST(Width, IsSmallWhereTheNetworkIsSlow) {
  CostInputs inputs = gpus(2);
  inputs.inside.beta = inputs.between.beta = 1 / 2e9;
  EXPECT_EQ(chosen(64 << 20, inputs, Collective::AllGather).width, 1U);
}

TEST(Width, OfAThreadedRankIsAThreadForEach64KiBAtMost) {
  CostInputs inputs = gpus(2);
  inputs.methods = {UsableMethod{}};
  inputs.max_width = 4;
  EXPECT_EQ(chosen((128 << 10) - 1, inputs).width, 1U);
  EXPECT_EQ(chosen(128 << 10, inputs).width, 2U);
  EXPECT_EQ(chosen(1 << 20, inputs).width, 4U);
}

TEST(Methods, ShortCallsTravelInLinesAndLongOnesInSlots) {
  const CostInputs inputs = gpus(4);
  EXPECT_STREQ(chosen(8, inputs).method->name, "ll");
  EXPECT_STREQ(chosen(16 << 20, inputs).method->name, "slots");
  for (uint64_t bytes = 8; bytes < 1 << 20; bytes *= 2) {
    const Row row = chosen(bytes, inputs);
    if (row.method == &exec::methods::slots) continue;
    const plan::Cost cost = row.algorithm->cost({Collective::AllReduce, 4});
    const uint64_t most = row.method == &exec::methods::ll ? 8 << 10 : 32 << 10;
    EXPECT_LE(cost.message.value() * static_cast<double>(window_for(row, bytes)), static_cast<double>(most)) << bytes;
  }
}

TEST(Methods, AFaultInTuttiMethodIsNamedWithTheVariable) {
  EXPECT_EQ(parse_forced_methods("nvls").at(""), "nvls");
  EXPECT_EQ(parse_forced_methods("allreduce:nvls,all_gather:copy_engine").at("all_reduce"), "nvls");
  for (const auto& [wrong, words] :
       {std::pair("nvl", "there is no method 'nvl' (did you mean nvls?); there are lanes, slots,"),
        std::pair("all_reduced:nvls", "there is no collective 'all_reduced'"),
        std::pair("nvls,slots", "both nvls and slots"),
        std::pair("all_reduce:nvls,allreduce:ll", "both nvls and ll for all_reduce"), std::pair("nvls,,", "''")}) {
    try {
      parse_forced_methods(wrong);
      FAIL() << wrong;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("TUTTI_METHOD", 0), 0u) << text;
      EXPECT_NE(text.find(words), std::string::npos) << text;
    }
  }
}

TEST(Methods, AForcedMethodRunsEveryCallInAsManyRoundsAsItNeeds) {
  CostInputs inputs = gpus(4);
  inputs.forced_methods = parse_forced_methods("all_reduce:ll");
  const Row row = chosen(16 << 20, inputs);
  EXPECT_STREQ(row.method->name, "ll");
  EXPECT_LT(window_for(row, 16 << 20), uint64_t{16} << 20);
}

}  // namespace
}  // namespace tutti::select
