#include "select/select.hpp"
#include "select/decision_table.hpp"

#include <gtest/gtest.h>

#include "link/link.hpp"
#include "select/explain.hpp"
#include "support/shapes.hpp"
#include "tutti/error.hpp"

namespace tutti::select {
namespace {

CostInputs inputs(Rank ranks) {
  const LinkCost link_cost{.alpha = 1e-6, .beta = 1e-10, .message = 1e-7};
  return {.ranks = ranks,
          .inside = link_cost,
          .between = link_cost,
          .gamma = 1e-10,
          .staging = 6 << 20,
          .message = 256 << 10};
}

/// The same in groups; links between groups are ten times slower.
CostInputs in_groups(const test::Labels& labels) {
  CostInputs s = inputs(static_cast<Rank>(labels.size()));
  s.groups = test::grouping_of(labels);
  s.between = {10 * s.inside.alpha, 10 * s.inside.beta, 10 * s.inside.message};
  return s;
}

/// g ranks in each of G groups, neighbours.
test::Labels blocks(Rank groups, Rank size) {
  test::Labels labels;
  for (Rank r = 0; r < groups * size; ++r) labels.push_back(r / size);
  return labels;
}

Candidate candidate_of(const char* name, Collective collective, uint64_t bytes, const CostInputs& s) {
  for (const Candidate& candidate : candidates(collective, bytes, s)) {
    if (std::string_view(candidate.row.algorithm->name) == name) return candidate;
  }
  return {};
}

TEST(Select, ForcedAlgorithmsAreReadAndCheckedByName) {
  const auto forced = parse_forced("all_reduce:ring,broadcast:binomial");
  EXPECT_EQ(forced.at("all_reduce"), "ring");
  EXPECT_EQ(forced.at("broadcast"), "binomial");
  EXPECT_TRUE(parse_forced("").empty());
  const auto others = parse_forced("ncclAllReduce:ring,bcast:binomial,allreduce:ring");  // names of other libraries
  EXPECT_EQ(others.at("all_reduce"), "ring");
  EXPECT_EQ(others.at("broadcast"), "binomial");
}

TEST(Select, AFaultInTuttiAlgoIsNamedWithTheVariable) {
  for (const auto& [wrong, words] :
       {std::pair("ring", "'ring' is not of the form collective:algorithm"),
        std::pair("all_reduce:", "all_reduce has no algorithm ''; it has "),
        std::pair("all_reduce:rong", "all_reduce has no algorithm 'rong' (did you mean ring?); it has "),
        std::pair("all_reduced:ring", "there is no collective 'all_reduced' (did you mean all_reduce?); there are "),
        std::pair("send_recv:ring", "send_recv has no algorithm 'ring'; it has none"),
        std::pair("all_reduce:ring,,", "'' is not of the form"),
        std::pair("all_reduce:ring,allreduce:swing", "forces both ring and swing for all_reduce")}) {
    try {
      parse_forced(wrong);
      FAIL() << wrong;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.rfind("TUTTI_ALGO", 0), 0u) << text;
      EXPECT_NE(text.find(words), std::string::npos) << text;
    }
  }
}

TEST(Select, AForcedAlgorithmIsTheOnlyCandidateLeft) {
  CostInputs s = inputs(4);
  s.forced = parse_forced("all_reduce:ring");
  const auto all = candidates(Collective::AllReduce, 8, s);
  EXPECT_STREQ(all.front().row.algorithm->name, "ring");
  for (size_t i = 1; i < all.size(); ++i) EXPECT_FALSE(all[i].rejected.empty());
  EXPECT_STREQ(DecisionTable(s).row(Collective::AllReduce, 1 << 20, {}).algorithm->name, "ring");
}

TEST(Select, AMessageToManyInPlaceReadersCountsOnce) {
  CostInputs s = inputs(8);
  const double far = candidate_of("one_shot", Collective::Broadcast, 1 << 20, s).seconds;
  s.inside.in_place = true;
  const double near = candidate_of("one_shot", Collective::Broadcast, 1 << 20, s).seconds;
  EXPECT_NEAR(far / near, 7, 0.1) << "seven readers of one copy";
  for (const char* name : {"ring", "two_shot", "one_shot"}) {  // each receives what it sends
    const double in_place = candidate_of(name, Collective::AllReduce, 1 << 20, s).seconds;
    EXPECT_EQ(in_place, candidate_of(name, Collective::AllReduce, 1 << 20, inputs(8)).seconds) << name;
  }
}

TEST(Select, RanksThatShareCoresPayForRoundsAndForEachOthersBytes) {
  CostInputs s = inputs(8);
  const auto ring = [&](uint64_t bytes) { return candidate_of("ring", Collective::AllReduce, bytes, s).seconds; };
  const double tiny = ring(8), huge = ring(1 << 30);
  s.oversubscription = 4;
  EXPECT_NEAR(ring(1 << 30) / huge, 4, 0.01);
  EXPECT_GT(ring(8) - tiny, 14 * 3 * 0.5e-6) << "fourteen rounds, each with three others before it";
  EXPECT_STREQ(DecisionTable(s).row(Collective::AllReduce, 8, {}).algorithm->name, "one_shot");
}

TEST(Select, RanksThatShareCoresPayForEachMessage) {
  CostInputs s = inputs(4);  // on two cores, through shared memory
  s.inside = {.alpha = 250e-9, .beta = 1e-10, .message = 83e-9, .in_place = true};
  s.gamma = 25e-12;
  s.oversubscription = 2;
  const DecisionTable table(s);
  const auto chosen = [&](uint64_t bytes) { return table.row(Collective::AllReduce, bytes, {}).algorithm->name; };
  EXPECT_STREQ(chosen(16), "one_shot");
  EXPECT_STREQ(chosen(4 << 10), "recursive_doubling") << "two_shot takes as few bytes, but six messages";
  EXPECT_STREQ(chosen(64 << 10), "two_shot");
}

TEST(Select, ReducesThroughStagingMemoryArePricedBackToBack) {
  constexpr uint64_t kBytes = 1 << 20;
  CostInputs s = inputs(2);  // what one rank copies in, the other copies out
  s.inside.in_place = true;
  s.gamma = s.inside.beta / 10;
  const double all = kBytes * s.inside.beta;
  const auto bandwidth = [](Collective collective, const char* name, const CostInputs& of) {
    return candidate_of(name, collective, kBytes, of).predicted.bandwidth;
  };
  EXPECT_NEAR(bandwidth(Collective::Reduce, "one_shot", s), all / 2, 1e-9) << "the sender goes on meanwhile";
  EXPECT_NEAR(bandwidth(Collective::Reduce, "recursive_doubling", s), all * 3 / 4, 1e-9) << "three halves each";
  EXPECT_STRNE(DecisionTable(s).row(Collective::Reduce, kBytes, {}).algorithm->name, "recursive_doubling");
  EXPECT_NEAR(bandwidth(Collective::Broadcast, "one_shot", s), all, 1e-9) << "the root copies to its output too";
  EXPECT_NEAR(bandwidth(Collective::AllReduce, "one_shot", s), all, 1e-9) << "each waits for the other";

  CostInputs direct = s, cma = s, shared = s, networked = s;
  direct.hand_over.reading = transports::ReadAccess::Direct;  // nothing is copied in
  cma.hand_over.always_cma = true;
  networked.inside.in_place = false;
  for (const CostInputs& other : {direct, cma, networked}) {
    EXPECT_NEAR(bandwidth(Collective::Reduce, "one_shot", other), all, 1e-9);
    EXPECT_STREQ(DecisionTable(other).row(Collective::Reduce, kBytes, {}).algorithm->name, "recursive_doubling");
  }
  shared.oversubscription = 2;  // the core does the work of both ranks
  EXPECT_NEAR(bandwidth(Collective::Reduce, "one_shot", shared), 2 * all, 1e-9);
}

TEST(Select, PricesACallThatItsSizeClassDecides) {
  const CostInputs s = inputs(8);
  int decided_otherwise = 0;
  for (uint64_t bytes = 1 << 10; bytes < uint64_t{1} << 26; bytes += bytes / 7) {
    const auto exact = candidates(Collective::AllReduce, bytes, s);
    const auto priced = priced_candidates(Collective::AllReduce, bytes, s);
    const Candidate chosen = candidates(Collective::AllReduce, decided_at(bytes), s).front();
    ASSERT_EQ(priced.size(), exact.size());
    EXPECT_EQ(priced.front().row.algorithm, chosen.row.algorithm) << bytes;
    EXPECT_EQ(verdict(priced.front(), priced.front()), "chosen");
    for (const Candidate& candidate : priced) {
      EXPECT_EQ(candidate.seconds,
                candidate_of(candidate.row.algorithm->name, Collective::AllReduce, bytes, s).seconds);
    }
    if (exact.front().row.algorithm == chosen.row.algorithm) continue;
    ++decided_otherwise;
    EXPECT_NE(verdict(priced[1], priced[0]).find("but not at the size for which its class is decided"),
              std::string::npos);
  }
  EXPECT_GT(decided_otherwise, 0) << "no case was tested";
}

TEST(Select, OfEquallyFastOnesTheOneWithLongerMessages) {
  const CostInputs s = inputs(2);
  EXPECT_STREQ(DecisionTable(s).row(Collective::AllToAll, 1 << 20, {}).algorithm->name, "one_shot") << "it lends";
  const auto all = candidates(Collective::AllReduce, 16 << 20, s);
  const auto stages = [&](const Candidate& c) { return c.row.algorithm->cost({Collective::AllReduce, 2}).stages; };
  int equal = 0;
  for (const Candidate& other : all) {
    if (!other.rejected.empty() || other.seconds != all.front().seconds) continue;
    EXPECT_LE(stages(all.front()), stages(other)) << other.row.algorithm->name;
    equal += stages(all.front()) < stages(other) ? 1 : 0;
  }
  EXPECT_GT(equal, 0) << "no case was tested";
}

/// The model counts no copies into staging memory and out of it.
TEST(Select, OfThoseThatArePredictedAsFastTheOneThatReadsInPlace) {
  CostInputs staged = inputs(4);
  staged.inside.message = staged.between.message = 1e-6;  // few messages are faster than one to each other rank
  CostInputs mapped = staged;
  mapped.inside.in_place = mapped.between.in_place = true;
  int copies_less = 0;
  for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll}) {
    for (uint64_t bytes = 1 << 10; bytes <= 64 << 20; bytes *= 2) {
      const auto all = candidates(collective, bytes, mapped);
      Candidate fastest = all.front();
      for (const Candidate& other : all) {
        if (other.rejected.empty() && other.seconds < fastest.seconds) fastest = other;
      }
      EXPECT_LE(all.front().seconds, 1.02 * fastest.seconds) << "no more is given up for it";
      for (const Candidate& other : all) {
        if (!other.rejected.empty() || !other.reads_in_place || other.seconds > 1.02 * fastest.seconds) continue;
        EXPECT_TRUE(all.front().reads_in_place) << name_of(collective) << " of " << bytes;
      }
      if (all.front().seconds == fastest.seconds) continue;
      ++copies_less;
      EXPECT_EQ(verdict(fastest, all.front()), "predicted as fast, but copies more");
      EXPECT_FALSE(candidates(collective, bytes, staged).front().reads_in_place) << "the fastest one, where all stage";
    }
  }
  EXPECT_GT(copies_less, 0) << "no case was tested";
}

TEST(Select, AForcedAlgorithmThatCannotBeUsedSaysWhy) {
  CostInputs s = inputs(4);
  s.forced = parse_forced("all_reduce:hierarchical");
  try {
    const DecisionTable table(s);
    FAIL() << "hierarchical without groups";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("TUTTI_ALGO forces all_reduce:hierarchical, which cannot be used on 4 ranks: ", 0), 0u)
        << text;
    EXPECT_NE(text.find("needs groups"), std::string::npos) << text;
    EXPECT_NE(text.find("Say by TUTTI_GROUPS"), std::string::npos) << text;
  }
}

TEST(Select, FewRoundsForSmallMessagesFewBytesForLargeOnes) {
  const DecisionTable table(inputs(16));
  const auto rounds = [&](uint64_t bytes) {
    return table.row(Collective::AllReduce, bytes, {}).algorithm->cost({Collective::AllReduce, 16}).rounds;
  };
  const auto sent = [&](uint64_t bytes) {
    return table.row(Collective::AllReduce, bytes, {}).algorithm->cost({Collective::AllReduce, 16}).sent.value();
  };
  EXPECT_LE(rounds(8), rounds(64 << 20));
  EXPECT_LT(sent(64 << 20), 2.0);
}

TEST(Select, AlongGroupsIfLinksBetweenThemAreSlow) {
  for (const Collective collective :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::Broadcast}) {
    const DecisionTable table(in_groups(blocks(2, 8)));
    EXPECT_STREQ(table.row(collective, 8 << 20, {}).algorithm->name, "hierarchical") << name_of(collective);
  }
}

TEST(Select, DoublingKeepsItsNearStepsInsideGroupsOfNeighbours) {
  const CostInputs aligned = in_groups(blocks(2, 8));
  EXPECT_LT(candidate_of("recursive_doubling", Collective::AllReduce, 8, aligned).seconds,
            candidate_of("hierarchical", Collective::AllReduce, 8, aligned).seconds);
  const auto cost = plan::find_algorithm(Collective::AllReduce, "recursive_doubling")
                        ->cost({Collective::AllReduce, 16, aligned.groups});
  ASSERT_TRUE(cost.between);
  EXPECT_EQ(cost.between->rounds, 1);  // of four
}

TEST(Select, NotAlongTrivialGroups) {
  for (const auto& [labels, reason] :
       {std::pair(blocks(1, 8), "all ranks are in one group"), std::pair(blocks(8, 1), "every rank is alone")}) {
    CostInputs s = in_groups(labels);
    const Candidate hierarchical = candidate_of("hierarchical", Collective::AllReduce, 1 << 20, s);
    EXPECT_NE(hierarchical.rejected.find(reason), std::string::npos) << hierarchical.rejected;
    s.groups = nullptr;
    EXPECT_EQ(candidate_of("ring", Collective::AllReduce, 1 << 20, s).seconds,
              candidate_of("ring", Collective::AllReduce, 1 << 20, in_groups(labels)).seconds);
    CostInputs forced = in_groups(labels);
    forced.forced = parse_forced("all_reduce:hierarchical");
    try {
      const DecisionTable table(forced);
      FAIL() << "forced along trivial groups that were not given";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Unsupported);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("Say by TUTTI_GROUPS"), std::string::npos) << error.what();
    }
    forced.groups_given = true;  // it is possible, and demanded
    EXPECT_STREQ(DecisionTable(forced).row(Collective::AllReduce, 8, {}).algorithm->name, "hierarchical");
  }
}

TEST(Select, LinksInsideAndBetweenGroupsHaveTheirOwnCost) {
  CostInputs s = in_groups(blocks(2, 4));
  const auto time = [&](const char* name) { return candidate_of(name, Collective::AllReduce, 1 << 20, s).seconds; };
  const double ring = time("ring"), hierarchical = time("hierarchical");
  s.between.beta *= 2;  // 1 MiB · β' is 2 ms more: ring sends 2 · 7/8 of it, hierarchical 2 · 1/2 · 1/4
  const double more = s.between.beta / 2 * (1 << 20);
  EXPECT_NEAR(time("ring") - ring, more * 7 / 4, 1e-9);
  EXPECT_NEAR(time("hierarchical") - hierarchical, more / 4, 1e-9);
  s = in_groups(blocks(2, 4));
  s.between.alpha += 1;  // two of its four rounds
  EXPECT_NEAR(time("hierarchical") - hierarchical, 2, 1e-6);
  EXPECT_NEAR(time("ring") - ring, 14, 1e-6);
  s = in_groups(blocks(2, 4));
  s.inside.alpha += 1;
  EXPECT_NEAR(time("hierarchical") - hierarchical, 2, 1e-6);
  EXPECT_NEAR(time("ring") - ring, 0, 1e-6);
}

TEST(Select, HierarchiesAreNotForTheReproducibleMode) {
  CostInputs s = in_groups(blocks(2, 4));
  s.reproducible = true;
  EXPECT_NE(candidate_of("hierarchical", Collective::AllReduce, 8, s).rejected.find("TUTTI_REPRODUCIBLE"),
            std::string::npos);
  EXPECT_TRUE(candidate_of("hierarchical", Collective::AllGather, 8, s).rejected.empty());
}

TEST(Select, ShrinkingMessagesDoNotAllCountAsTheLargest) {
  const auto time = [](const char* name) {
    return candidate_of(name, Collective::AllReduce, 64 << 10, inputs(64)).seconds;
  };
  const double bytes = 64 << 10, setup = 12e-6;  // one message a round
  EXPECT_NEAR(time("rabenseifner"), setup + bytes * 63 / 64 * (2 + 1) * 1e-10, 1e-9);
}

TEST(Select, TheTableSurvivesSerialization) {
  const DecisionTable table(inputs(6));
  const DecisionTable copy = DecisionTable::parse(table.text(), inputs(6));
  EXPECT_EQ(copy.text(), table.text());
  for (uint64_t bytes = 1; bytes < (uint64_t{1} << 44); bytes *= 3) {
    EXPECT_EQ(copy.row(Collective::AllGather, bytes, {}).algorithm,
              table.row(Collective::AllGather, bytes, {}).algorithm);
  }
  const std::string deep =
      "[[\"all_reduce\",8,\"no such\",8," + std::string(400000, '[') + std::string(400000, ']') + "]]";
  for (const std::string& garbage :
       {std::string(), std::string("{"), std::string("[[1]]"), std::string(R"([["all_reduce",8,"no such",8]])"),
        std::string(R"([["all_reduce",8,"ring",0]])"), std::string(R"([["all_reduce",8,"ring",1e300]])"),
        std::string(R"([["all_reduce",-8,"ring",8]])"),
        std::string(R"([["all_reduce",8,"ring",18446744073709551615]])"),
        std::string(R"([["all_reduce",8,"hierarchical",8]])"), deep}) {  // there are no groups
    EXPECT_THROW(DecisionTable::parse(garbage, inputs(6)), Error) << garbage.substr(0, 100);
  }
}

TEST(Select, AWindowFitsTheStagingMemoryOfEveryRank) {
  for (const Rank n : {2, 3, 8, 64, 1000}) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const plan::Algorithm* a : plan::algorithms_of(static_cast<Collective>(c))) {
        const plan::Shape shape{static_cast<Collective>(c), n};
        if (!a->allows(shape)) continue;
        const plan::Cost cost = a->cost(shape);
        const CostInputs s = inputs(n);
        if (cost.message == plan::Ratio(0) || window_bytes(*a, s) == 0) continue;
        const double message = cost.message.value() * static_cast<double>(window_bytes(*a, s)) + 128;
        const double staged = message * static_cast<double>(cost.stages) * link::kSlots;
        EXPECT_LE(staged, static_cast<double>(s.staging)) << a->name << " n=" << n;
      }
    }
  }
}

TEST(Select, AWindowFitsForEveryRoot) {
  for (Rank n = 2; n <= 9; ++n) {
    for (const test::Labels& labels : test::some_groupings(n)) {
      const CostInputs s = in_groups(labels);
      const plan::Algorithm& broadcast = *plan::find_algorithm(Collective::Broadcast, "hierarchical");
      const auto window = static_cast<double>(window_bytes(broadcast, s));
      for (Rank root = 0; root < n; ++root) {
        const auto seen = plan::RankOrder().seen(s.groups, root);
        const plan::Cost cost = broadcast.cost({Collective::Broadcast, n, seen});
        const double message = cost.message.value() * window + 128;
        EXPECT_LE(message * static_cast<double>(cost.stages) * link::kSlots, static_cast<double>(s.staging))
            << n << " ranks, root " << root;
      }
    }
  }
}

TEST(Select, AnAlgorithmWhoseMessagesDoNotFitIsRejectedWithARemedy) {
  CostInputs s = inputs(1000);
  for (const Candidate& candidate : candidates(Collective::AllGather, 8, s)) {
    if (!candidate.row.algorithm->allows({Collective::AllGather, s.ranks})) continue;
    const bool fits = window_bytes(*candidate.row.algorithm, s) > 0;
    EXPECT_EQ(candidate.rejected.empty(), fits) << candidate.row.algorithm->name;
    EXPECT_EQ(candidate.rejected.find("TUTTI_ARENA") != std::string::npos, !fits);
  }
}

}  // namespace
}  // namespace tutti::select
