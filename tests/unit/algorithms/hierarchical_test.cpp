#include <gtest/gtest.h>

#include "algorithms/rails.hpp"
#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using Words = std::vector<std::string>;
using Ranks = std::vector<Rank>;
using test::Labels;

const Labels kUneven = {0, 0, 1, 1, 1};  // two rails: 0 and 2, 1 and 3; 4 is an extra of the first

TEST(Rails, ServeEveryRankOnce) {
  const auto groups = test::grouping_of({7, 3, 7, 3, 3, 3, 7, 3});  // 0 2 6 and 1 3 4 5 7
  const algorithms::Rails rails({Collective::AllGather, 8, groups}, 4);
  EXPECT_EQ(rails.count, 3);
  EXPECT_EQ(rails.group, 1);
  EXPECT_EQ(rails.place, 2);
  EXPECT_TRUE(rails.is_carrier());
  EXPECT_EQ(rails.next(), 6);
  EXPECT_EQ(rails.others(), (Ranks{5, 7, 1, 3}));
  EXPECT_EQ(rails.other_rails(), (Ranks{0, 1}));
  EXPECT_EQ(rails.served(1, 0), (Ranks{1, 5}));
  EXPECT_EQ(rails.served(1, 1), (Ranks{3, 7}));
  EXPECT_EQ(rails.served(1, 2), Ranks{4});
  EXPECT_FALSE(algorithms::Rails({Collective::AllGather, 8, groups}, 7).is_carrier());
}

TEST(Hierarchical, AllReduceFoldsInsideGoesRoundBetweenAndIsToldInside) {
  const Candidate all_reduce{Collective::AllReduce, "hierarchical"};
  EXPECT_EQ(steps_of(all_reduce, kUneven, 2),
            (Words{"lend in[2-3/4] > 3", "fold scratch[0-1/4] = in[0-1/4] + <3 + <4", "|",
                   "after 1: lend scratch[1/4] > 0", "complete out[0/4] = <0 + scratch[0/4]", "lend out[0/4] > 0",
                   "recv out[1/4] < 0", "|", "after 5: lend out[0-1/4] > 3 4", "recv out[2-3/4] < 3"}));
  EXPECT_EQ(steps_of(all_reduce, kUneven, 4), (Words{"lend in[2-3/4] > 3", "lend in[0-1/4] > 2", "|", "|",
                                                     "recv out[2-3/4] < 3", "recv out[0-1/4] < 2"}));
}

TEST(Hierarchical, AllReduceOfRanksAloneIsARing) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "hierarchical"}, Labels{0, 1, 2}, 1),
            (Words{"|", "lend in[1/3] > 2", "fold scratch[0/3] = <0 + in[0/3]", "lend scratch[0/3] > 2",
                   "complete out[2/3] = <0 + in[2/3]", "lend out[2/3] > 2", "recv out[1/3] < 0", "lend out[1/3] > 2",
                   "recv out[0/3] < 0", "|"}));
}

TEST(Hierarchical, AllReduceOfOneGroupIsTwoShot) {
  EXPECT_EQ(steps_of({Collective::AllReduce, "hierarchical"}, Labels{0, 0, 0}, 1),
            (Words{"lend in[2/3] > 2", "lend in[0/3] > 0", "complete out[1/3] = <0 + in[1/3] + <2", "|", "|",
                   "after 2: lend out[1/3] > 2 0", "recv out[2/3] < 2", "recv out[0/3] < 0"}));
}

TEST(Hierarchical, BroadcastGoesDownEachRail) {
  const Candidate broadcast{Collective::Broadcast, "hierarchical"};
  EXPECT_EQ(steps_of(broadcast, kUneven, 0), (Words{"lend in[1/2] > 1", "|", "lend in[0/2] > 2", "|",
                                                    "lend in[0/2] > 1", "copy out[0-1/2] = in[0-1/2]"}));
  EXPECT_EQ(steps_of(broadcast, kUneven, 1),
            (Words{"recv out[1/2] < 0", "|", "after 0: lend out[1/2] > 3", "|", "recv out[0/2] < 0"}));
  EXPECT_EQ(steps_of(broadcast, kUneven, 3),
            (Words{"|", "recv out[1/2] < 1", "|", "after 0: lend out[1/2] > 4 2", "recv out[0/2] < 2"}));
  EXPECT_EQ(steps_of(broadcast, kUneven, 4), (Words{"|", "|", "recv out[1/2] < 3", "recv out[0/2] < 2"}));
}

TEST(Hierarchical, AllGatherSendsEachBlockToEachGroupOnce) {
  const Candidate all_gather{Collective::AllGather, "hierarchical"};
  EXPECT_EQ(
      steps_of(all_gather, kUneven, 2),
      (Words{"lend in > 3 4", "copy out#2 = in", "recv out#3 < 3", "recv out#4 < 4", "|",
             "after 3: lend out#2,out#4 > 0", "recv out#0 < 0", "|", "after 5: lend out#0 > 3 4", "recv out#1 < 3"}));
  EXPECT_EQ(steps_of(all_gather, kUneven, 4), (Words{"lend in > 2 3", "copy out#4 = in", "recv out#2 < 2",
                                                     "recv out#3 < 3", "|", "|", "recv out#1 < 3", "recv out#0 < 2"}));
}

TEST(Hierarchical, ReduceScatterHandsExtrasTheirs) {
  const Candidate reduce_scatter{Collective::ReduceScatter, "hierarchical"};
  EXPECT_EQ(steps_of(reduce_scatter, kUneven, 2),
            (Words{"lend in#1 > 3", "fold scratch#0 = in#0 + <3 + <4", "lend in#3 > 3",
                   "fold scratch#1,scratch#2 = in#2,in#4 + <3 + <4", "|", "after 1: send scratch#0 > 0",
                   "after 3: complete out,scratch#2 = <0 + scratch#1,scratch#2", "|", "after 5: send scratch#2 > 4"}));
  EXPECT_EQ(steps_of(reduce_scatter, kUneven, 4),
            (Words{"lend in#1 > 3", "lend in#0 > 2", "lend in#3 > 3", "lend in#2,in#4 > 2", "|", "|", "recv out < 2"}));
}

TEST(Hierarchical, AllToAllCollectsForEachRail) {
  const Candidate all_to_all{Collective::AllToAll, "hierarchical"};
  EXPECT_EQ(steps_of(all_to_all, kUneven, 1),
            (Words{"lend in#0,in#2,in#4 > 0", "recv out#0,scratch < 0", "copy out#1 = in#1", "|",
                   "after 1: send scratch,in#3 > 3", "recv out#2,out#3,out#4 < 3", "|"}));
  EXPECT_EQ(steps_of(all_to_all, kUneven, 2),
            (Words{"lend in#3,in#1 > 3", "recv out#4,scratch#1 < 4", "lend in#4 > 4", "recv out#3,scratch#0 < 3",
                   "copy out#2 = in#2", "|", "after 3: send in#0,scratch#0,scratch#1 > 0",
                   "recv out#0,scratch#2,out#1,scratch#3 < 0", "|", "after 6: send scratch#2,scratch#3 > 4"}));
  EXPECT_EQ(steps_of(all_to_all, kUneven, 4),
            (Words{"lend in#2,in#0 > 2", "recv out#3 < 3", "lend in#3,in#1 > 3", "recv out#2 < 2", "copy out#4 = in#4",
                   "|", "|", "recv out#0,out#1 < 2"}));
}

TEST(Hierarchical,
     SendsBetweenGroupsWhatItSays) {  // all-to-all: 4 sources × 4 targets in 4 messages, one for each rail
  const Labels even = {0, 0, 0, 0, 1, 1, 1, 1};
  const auto between = [&](Collective collective) {
    Ratio sent;
    for (const LinkCount& link : count(Candidate{collective, "hierarchical"}.plans(even)).links) {
      if (link.from < 4 && link.to >= 4) sent = sent + link.sent;
    }
    return sent;
  };
  EXPECT_EQ(between(Collective::AllReduce), Ratio(1));
  EXPECT_EQ(between(Collective::Broadcast), Ratio(1));
  EXPECT_EQ(between(Collective::AllGather), Ratio(4));
  EXPECT_EQ(between(Collective::ReduceScatter), Ratio(4));
  EXPECT_EQ(between(Collective::AllToAll), Ratio(16));
}

TEST(Hierarchical, IsCanonicalForTwoGroupsThatAreHalvesOfTheTree) {
  for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter}) {
    const Candidate hierarchical{c, "hierarchical"};
    EXPECT_TRUE(is_canonical(hierarchical.plans(Labels{0, 0, 0, 0, 1, 1, 1, 1}))) << name_of(c);
    EXPECT_TRUE(is_canonical(hierarchical.plans(Labels{0, 0, 0, 0, 1, 1}))) << name_of(c);  // leaves 01 23, 4 5
    EXPECT_FALSE(is_canonical(hierarchical.plans(Labels{0, 0, 0, 1, 1, 1, 1, 1}))) << name_of(c);
    EXPECT_FALSE(is_canonical(hierarchical.plans(Labels{0, 1, 0, 1}))) << name_of(c);
  }
}

TEST(Hierarchical, AllReduceOverlapsItsRounds) {
  const auto plans = Candidate{Collective::AllReduce, "hierarchical"}.plans(Labels{0, 0, 1, 1});
  EXPECT_EQ(time_of(plans, 1), 4);
  EXPECT_EQ(time_of(plans, 32), 4 + 31 * 2);  // of each window, two messages of the ring; the others beside them
}

TEST(Hierarchical, LendsWhatItCan) {
  // Not reduce-scatter and all-to-all: what carriers pass on they send as copies.
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::AllGather}) {
    EXPECT_TRUE(lends_what_it_can({c, "hierarchical"})) << name_of(c);
  }
}

TEST(Hierarchical, NeedsGroupsOfAllItsRanks) {
  const Algorithm& all_reduce = Candidate{Collective::AllReduce, "hierarchical"}.algorithm();
  EXPECT_THROW(generate(all_reduce, {Collective::AllReduce, 4}, 0), Error);
  EXPECT_THROW(generate(all_reduce, {Collective::AllReduce, 4, test::grouping_of({0, 0, 1})}, 0), Error);
}

}  // namespace
}  // namespace tutti::plan
