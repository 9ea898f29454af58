#include "algorithms/double_tree.hpp"

#include <gtest/gtest.h>

#include "support/clockwork.hpp"
#include "support/prove.hpp"

namespace tutti::plan {
namespace {

using algorithms::DoubleTree;
using algorithms::TreePlace;
using Words = std::vector<std::string>;
using Ranks = std::vector<Rank>;

TEST(DoubleTree, OfSixIsATreeAndItsMirrorImage) {
  const DoubleTree trees{0, 6};  // 3 above 1 and 5, which are above 0 and 2, and 4; and from the other end
  EXPECT_EQ(trees.top(0), 3);
  EXPECT_EQ(trees.place(0, 3).children, (Ranks{1, 5}));
  EXPECT_EQ(trees.place(0, 1).children, (Ranks{0, 2}));
  EXPECT_EQ(trees.place(0, 5).children, Ranks{4});
  EXPECT_EQ(trees.top(1), 2);
  EXPECT_EQ(trees.place(1, 2).children, (Ranks{4, 0}));
  EXPECT_EQ(trees.place(1, 4).children, (Ranks{5, 3}));
  EXPECT_EQ(trees.place(1, 0).children, Ranks{1});
}

TEST(DoubleTree, OfFiveIsATreeAndTheSameMovedOn) {
  const DoubleTree trees{10, 5};
  EXPECT_EQ(trees.top(0), 13);
  EXPECT_EQ(trees.place(0, 13).children, (Ranks{11, 14}));
  EXPECT_EQ(trees.place(0, 11).children, (Ranks{10, 12}));
  EXPECT_EQ(trees.top(1), 14);
  EXPECT_EQ(trees.place(1, 14).children, (Ranks{12, 10}));
  EXPECT_EQ(trees.place(1, 12).children, (Ranks{11, 13}));
}

TEST(DoubleTree, HasEveryRankUnderItsParentAndInnerOnceAtMost) {
  for (Rank m = 1; m <= 300; ++m) {
    const DoubleTree trees{1, m};
    for (Rank r = 1; r <= m; ++r) {
      int inner = 0;
      for (const Rank tree : {0, 1}) {
        const TreePlace place = trees.place(tree, r);
        inner += place.children.empty() ? 0 : 1;
        for (const Rank child : place.children) ASSERT_EQ(trees.place(tree, child).parent, r) << m;
        int depth = 0;
        Rank at = r;
        for (; trees.place(tree, at).parent != kNoRank && depth < m; ++depth) at = trees.place(tree, at).parent;
        ASSERT_EQ(at, trees.top(tree)) << m;
        ASSERT_LE(depth, algorithms::log2_floor(m));
      }
      ASSERT_LE(inner, 1) << m;
    }
  }
}

TEST(DoubleTree, AllReduceSendsHalfUpAndDownEitherTree) {
  const Candidate all_reduce{Collective::AllReduce, "double_tree"};
  EXPECT_EQ(steps_of(all_reduce, 6, 3),
            (Words{"complete out[0/2] = in[0/2] + <1 + <5", "|", "after 0: lend out[0/2] > 1 5", "|",
                   "lend in[1/2] > 4", "|", "recv out[1/2] < 4"}));
  EXPECT_EQ(steps_of(all_reduce, 6, 4),
            (Words{"lend in[0/2] > 5", "|", "recv out[0/2] < 5", "|", "fold scratch[1/2] = in[1/2] + <5 + <3",
                   "lend scratch[1/2] > 2", "|", "recv out[1/2] < 2", "lend out[1/2] > 5 3"}));
}

TEST(DoubleTree, BroadcastHasTheRootAboveBothTrees) {
  const Candidate broadcast{Collective::Broadcast, "double_tree"};
  EXPECT_EQ(steps_of(broadcast, 6, 0),
            (Words{"lend in[0/2] > 4", "copy out[0/2] = in[0/2]", "|", "lend in[1/2] > 5", "copy out[1/2] = in[1/2]"}));
  EXPECT_EQ(steps_of(broadcast, 6, 4), (Words{"recv out[0/2] < 0", "lend out[0/2] > 2 5", "|", "recv out[1/2] < 3"}));
  EXPECT_EQ(steps_of(broadcast, 6, 1), (Words{"recv out[0/2] < 2", "|", "recv out[1/2] < 5"}));  // a leaf of both
}

TEST(DoubleTree, ReduceComesUpToIt) {
  const Candidate reduce{Collective::Reduce, "double_tree"};
  EXPECT_EQ(steps_of(reduce, 6, 0),
            (Words{"complete out[0/2] = in[0/2] + <4", "|", "complete out[1/2] = in[1/2] + <5"}));
  EXPECT_EQ(steps_of(reduce, 6, 3),
            (Words{"lend in[0/2] > 2", "|", "fold scratch[1/2] = in[1/2] + <2 + <4", "send scratch[1/2] > 5"}));
}

TEST(DoubleTree, FollowsOneWindowWithTheNext) {  // 15: three deep; 16: three deep below the root
  EXPECT_EQ(time_of(Candidate{Collective::AllReduce, "double_tree"}.plans(15), 32), 2 * 3 + 31);
  EXPECT_EQ(time_of(Candidate{Collective::Broadcast, "double_tree"}.plans(16), 32), 1 + 3 + 31);
  EXPECT_EQ(time_of(Candidate{Collective::Reduce, "double_tree"}.plans(16), 32), 1 + 3 + 31);
}

TEST(DoubleTree, LendsWhatItCan) {
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::Reduce}) {
    EXPECT_TRUE(lends_what_it_can({c, "double_tree"})) << name_of(c);
  }
}

}  // namespace
}  // namespace tutti::plan
