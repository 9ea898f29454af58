// Communicators with rank groups.
#include <gtest/gtest.h>

#include <numeric>

#include "base/format.hpp"
#include "comm/groups.hpp"
#include "plan/algorithm.hpp"
#include "plan/order.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

using Strings = std::vector<std::string>;

std::string words_of(const comm::Groups& groups) {
  std::string words;
  for (Rank r = 0; r < groups->ranks(); ++r) words += fmt::format("{}", groups->group_of(r));
  return words;
}

constexpr Collective kServed[] = {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter,
                                  Collective::AllToAll, Collective::Broadcast};

std::string all_forced() {
  std::string text;
  for (const Collective c : kServed) text += fmt::format("{}{}:hierarchical", text.empty() ? "" : ",", name_of(c));
  return text;
}

/// A number that identifies a rank and an index.
int64_t value(int rank, size_t i) { return rank * 1000003 + static_cast<int64_t>(i); }

std::vector<int64_t> input_of(int rank, size_t count) {
  std::vector<int64_t> in(count);
  for (size_t i = 0; i < count; ++i) in[i] = value(rank, i);
  return in;
}

int64_t sum_of(int ranks, size_t i) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

void expect_blocks(int n, int rank, tuttiComm_t comm, size_t count) {
  const auto un = static_cast<size_t>(n), me = static_cast<size_t>(rank);
  const std::vector<int64_t> block = input_of(rank, count), blocks = input_of(rank, un * count);
  std::vector<int64_t> one(count), all(un * count);
  ASSERT_EQ(tuttiAllGather(block.data(), all.data(), count, tuttiInt64, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError();
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], value(static_cast<int>(i / count), i % count)) << i;
  ASSERT_EQ(tuttiReduceScatter(blocks.data(), one.data(), count, tuttiInt64, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError();
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(one[i], sum_of(n, me * count + i)) << i;
  ASSERT_EQ(tuttiAllToAll(blocks.data(), all.data(), count, tuttiInt64, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError();
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], value(static_cast<int>(i / count), me * count + i % count)) << i;
  }
}

/// All collectives that hierarchical algorithms implement, with all roots.
void expect_right(int n, int rank, tuttiComm_t comm) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{3001}}) {
    const std::vector<int64_t> in = input_of(rank, count);
    std::vector<int64_t> out(count);
    ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiInt64, tuttiSum, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError();
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], sum_of(n, i)) << i;
    for (int root = 0; root < n; ++root) {
      ASSERT_EQ(tuttiBroadcast(in.data(), out.data(), count, tuttiInt64, root, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError();
      ASSERT_EQ(out, input_of(root, count)) << "root " << root;
    }
    expect_blocks(n, rank, comm, count);
  }
}

TEST(GroupsOfRanks, AreTheRanksOfEachHost) {
  EXPECT_EQ(words_of(comm::groups_of(Strings{"b", "a", "b", "b", "c"}, "")), "01002");
  EXPECT_FALSE(comm::groups_of(Strings{"a", "a", "a"}, "")->has_two_levels());
  EXPECT_FALSE(comm::groups_of(Strings{"a", "b", "c"}, "")->has_two_levels());
}

TEST(GroupsOfRanks, AreWhatTheUserSpecifies) {
  EXPECT_EQ(words_of(comm::groups_of(Strings{"a", "a", "a", "a", "a"}, "2")), "00112");
  EXPECT_EQ(words_of(comm::groups_of(Strings{"a", "b", "a", "b"}, "5,5,5,1")), "0001");
  EXPECT_THROW(comm::groups_of(Strings{"a", "a"}, "0,0,1"), Error);
}

TEST(GroupsOfRanks, OfASubsetKeepTheirRanks) {
  const auto all = comm::groups_of(Strings{"a", "a", "b", "b", "c"}, "");
  EXPECT_EQ(words_of(comm::groups_among(*all, std::vector<Rank>{4, 3, 0, 2})), "0121");
}

TEST(GroupsOfRanks, AreCrossedEquallyOftenFromEveryRoot) {
  const auto groups = comm::groups_of(Strings{"a", "a", "b", "b", "b", "c", "c"}, "");
  const plan::Algorithm& broadcast = *plan::find_algorithm(Collective::Broadcast, "hierarchical");
  for (Rank root = 0; root < 7; ++root) {
    const auto group_of = [&](Rank planned) { return groups->group_of((planned + root) % 7); };
    int crossing = 0;
    for (const plan::RankPlan& plan :
         plan::generate_all(broadcast, {Collective::Broadcast, 7, plan::RankOrder().seen(groups, root)})) {
      for (const plan::Step& step : plan.steps) {
        for (uint32_t p = step.peers.begin; step.kind == plan::StepKind::Send && p < step.peers.end; ++p) {
          crossing += group_of(plan.rank) == group_of(plan.peers[p]) ? 0 : 1;
        }
      }
    }
    EXPECT_EQ(crossing, 4) << "root " << root;  // two rails, two more groups
  }
}

struct Grouped {
  int ranks;
  const char* groups;
};
class TwoLevels : public testing::TestWithParam<Grouped> {};

TEST_P(TwoLevels, IsCorrectForEveryCollectiveAndRoot) {
  const test::ScopedEnv groups("TUTTI_GROUPS", GetParam().groups), forced("TUTTI_ALGO", all_forced());
  for (const char* message : {"4K", "256K"}) {
    const test::ScopedEnv window("TUTTI_MESSAGE", message);
    with_ranks(GetParam().ranks, [](int rank, tuttiComm_t comm) { expect_right(GetParam().ranks, rank, comm); });
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, TwoLevels,
                         testing::Values(Grouped{5, "0,0,1,1,1"}, Grouped{5, "0,1,1,0,2"}, Grouped{7, "3"},
                                         Grouped{7, "0,1,0,1,1,0,1"}, Grouped{8, "4"}, Grouped{8, "0,0,0,0,0,1,2,2"},
                                         Grouped{4, "4"}, Grouped{3, "1"}),
                         [](const auto& test) { return fmt::format("{}of{}", test.index, test.param.ranks); });

TEST(TwoLevelComm, AlgorithmsNeedGroups) {  // all threads are on one host, so in one group
  const test::ScopedEnv forced("TUTTI_ALGO", all_forced());
  tuttiComm_t comms[3];
  EXPECT_EQ(tuttiCommInitAll(comms, 3), tuttiUnsupported);
  const std::string text = tuttiGetLastError();
  EXPECT_NE(text.find("hierarchical, which cannot be used on 3 ranks: all ranks are in one group"), std::string::npos)
      << text;
  EXPECT_NE(text.find("TUTTI_ALGO forces "), std::string::npos) << text;
  with_ranks(1, [](int rank, tuttiComm_t comm) { expect_right(1, rank, comm); });  // a single rank has no groups
}

TEST(TwoLevelComm,
     AlgorithmsRunInASubCommunicatorOfOneGroup) {  // the parent has groups; the log says that they gain nothing here
  const test::ScopedEnv groups("TUTTI_GROUPS", "2"), forced("TUTTI_ALGO", all_forced());
  with_ranks(4, [](int rank, tuttiComm_t comm) {
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, rank / 2, rank, &part), tuttiSuccess) << tuttiGetLastError();
    expect_right(2, rank % 2, part);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
  });
}

TEST(TwoLevelComm, SubCommunicatorsKeepTheGroupsOfTheirMembers) {
  // A list for 7 ranks fits no other number: a sub-communicator that used it would fail.
  const test::ScopedEnv groups("TUTTI_GROUPS", "0,0,0,1,1,2,2"), forced("TUTTI_ALGO", all_forced());
  with_ranks(7, [](int rank, tuttiComm_t comm) {
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, rank == 3 ? -1 : 0, -rank, &part), tuttiSuccess) << tuttiGetLastError();
    if (rank == 3) return;
    const int place = rank > 3 ? 6 - rank : 5 - rank;
    expect_right(6, place, part);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
  });
}

TEST(TwoLevelComm, InvalidGroupsAreRefused) {
  for (const auto& [value, reason] : {std::pair("0,0,1", "TUTTI_GROUPS has labels for 3 ranks where there are 2"),
                                      std::pair("two", "TUTTI_GROUPS is 'two'; it must be the size of a group"),
                                      std::pair("0", "TUTTI_GROUPS is 0; a group has at least one rank")}) {
    const test::ScopedEnv groups("TUTTI_GROUPS", value);
    tuttiComm_t comms[2];
    EXPECT_EQ(tuttiCommInitAll(comms, 2), tuttiInvalidArgument);
    EXPECT_NE(std::string(tuttiGetLastError()).find(reason), std::string::npos) << tuttiGetLastError();
  }
}

}  // namespace
}  // namespace tutti
