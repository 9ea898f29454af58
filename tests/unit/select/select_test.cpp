#include "select/select.hpp"

#include <gtest/gtest.h>

#include "transports/link.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

Setting setting(Rank ranks) { return {.ranks = ranks, .staging = 6 << 20, .message = 256 << 10}; }

TEST(Select, ForcedAlgorithmsAreReadAndCheckedByName) {
  const auto forced = parse_forced("all_reduce:ring,broadcast:binomial");
  EXPECT_EQ(forced.at("all_reduce"), "ring");
  EXPECT_EQ(forced.at("broadcast"), "binomial");
  EXPECT_TRUE(parse_forced("").empty());
  for (const char* wrong : {"ring", "all_reduce:", "all_reduce:rong", "all_reduction:ring", "all_reduce:ring,,"}) {
    EXPECT_THROW(parse_forced(wrong), Error) << wrong;
  }
}

TEST(Select, AForcedAlgorithmIsTheOnlyCandidateLeft) {
  Setting s = setting(4);
  s.forced = parse_forced("all_reduce:ring");
  const auto all = candidates(Collective::AllReduce, 8, s);
  EXPECT_STREQ(all.front().algorithm->name, "ring");
  for (size_t i = 1; i < all.size(); ++i) EXPECT_FALSE(all[i].rejected.empty());
  EXPECT_STREQ(DecisionTable(s).choose(Collective::AllReduce, 1 << 20).algorithm->name, "ring");
}

TEST(Select, AForcedAlgorithmThatCannotBeUsedSaysWhy) {
  Setting s = setting(4);
  s.forced = parse_forced("all_reduce:hierarchical");
  try {
    const DecisionTable table(s);
    FAIL() << "hierarchical without groups";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("hierarchical does not work for 4 ranks"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("needs groups"), std::string::npos) << error.what();
  }
}

TEST(Select, FewRoundsForSmallMessagesFewBytesForLargeOnes) {
  const DecisionTable table(setting(16));
  const auto rounds = [&](uint64_t bytes) {
    return table.choose(Collective::AllReduce, bytes).algorithm->cost({Collective::AllReduce, 16}).rounds;
  };
  const auto sent = [&](uint64_t bytes) {
    return table.choose(Collective::AllReduce, bytes).algorithm->cost({Collective::AllReduce, 16}).sent.value();
  };
  EXPECT_LE(rounds(8), rounds(64 << 20));
  EXPECT_LT(sent(64 << 20), 2.0);
}

TEST(Select, TheTableSurvivesItsJourney) {
  const DecisionTable table(setting(6));
  const DecisionTable copy = DecisionTable::parse(table.text());
  EXPECT_EQ(copy.text(), table.text());
  for (uint64_t bytes = 1; bytes < (uint64_t{1} << 44); bytes *= 3) {
    EXPECT_EQ(copy.choose(Collective::AllGather, bytes).algorithm,
              table.choose(Collective::AllGather, bytes).algorithm);
  }
  for (const char* garbage :
       {"", "{", "[[1]]", "[[\"all_reduce\",8,\"no such\",8]]", "[[\"all_reduce\",8,\"ring\",0]]"}) {
    EXPECT_THROW(DecisionTable::parse(garbage), Error) << garbage;
  }
}

TEST(Select, AWindowFitsTheStagingMemoryOfEveryRank) {
  for (const Rank n : {2, 3, 8, 64, 1000}) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const plan::Algorithm* a : plan::algorithms_of(static_cast<Collective>(c))) {
        const plan::Shape shape{static_cast<Collective>(c), n};
        if (!a->allows(shape)) continue;
        const plan::Cost cost = a->cost(shape);
        const Setting s = setting(n);
        if (cost.message == plan::Ratio(0) || window_bytes(*a, s) == 0) continue;
        const double message = cost.message.value() * static_cast<double>(window_bytes(*a, s)) + 128;
        const double staged = message * static_cast<double>(cost.stages) * transports::kCapacity;
        EXPECT_LE(staged, static_cast<double>(s.staging)) << a->name << " n=" << n;
      }
    }
  }
}

TEST(Select, AnAlgorithmWhoseMessagesDoNotFitIsRejectedWithARemedy) {
  Setting s = setting(1000);
  for (const Candidate& candidate : candidates(Collective::AllGather, 8, s)) {
    if (!candidate.algorithm->allows({Collective::AllGather, s.ranks})) continue;
    const bool fits = window_bytes(*candidate.algorithm, s) > 0;
    EXPECT_EQ(candidate.rejected.empty(), fits) << candidate.algorithm->name;
    EXPECT_EQ(candidate.rejected.find("TUTTI_ARENA") != std::string::npos, !fits);
  }
}

}  // namespace
}  // namespace tutti::select
