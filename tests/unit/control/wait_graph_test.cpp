// Deadlocks found in wait graphs: certain only if no wait can ever end.
#include "control/wait_graph.hpp"

#include <gtest/gtest.h>

#include "control/wait_table.hpp"

namespace tutti::control {
namespace {

constexpr uint64_t kWorld = 1, kPair = 2;

Wait wait(uint64_t ticket, uint64_t communicator, Rank rank, std::vector<Awaited> on) {
  return {.ticket = ticket,
          .communicator = communicator,
          .rank = rank,
          .title = communicator == kWorld ? "world" : "split of world (colour 0, ranks 0, 1)",
          .call = communicator == kWorld ? "barrier(), call 3" : "all_reduce(count=8, f32, sum), call 7",
          .stuck_ms = 5000,
          .age_ms = 200,
          .on = std::move(on)};
}

std::function<Entered()> entered(uint64_t collectives, uint64_t sends = Entered::kUnknown) {
  return [=] { return Entered{.collectives = collectives, .sends = sends}; };
}

/// Process 10 holds rank 0 of both communicators, process 11 rank 1. Each waits in another communicator.
struct Cycle {
  ProcessWaits first{.process = 10, .free = 0, .age_ms = 100, .waits = {wait(100, kWorld, 0, {{1, 11, 0}})}};
  ProcessWaits second{.process = 11, .free = 0, .age_ms = 100, .waits = {wait(101, kPair, 1, {{0, 10, 0}})}};
  Cycle() {
    first.waits[0].on[0].settled = second.state();
    second.waits[0].on[0].settled = first.state();
  }
  WaitGraph graph() const { return WaitGraph({first, second}); }
};

TEST(WaitGraph, FindsACycleThroughTwoCommunicators) {
  const Stuck stuck = Cycle().graph().stuck(100);
  EXPECT_EQ(stuck.tickets, (std::vector<uint64_t>{100, 101}));
  EXPECT_EQ(stuck.age_ms, 200U);
  EXPECT_EQ(Cycle().graph().stuck(101).tickets, stuck.tickets);
  EXPECT_EQ(
      Cycle().graph().follow(100),
      "rank 0 of world waits in barrier(), call 3, for rank 1, which has not come to that call: it waits, as rank "
      "1 of split of world (colour 0, ranks 0, 1), in all_reduce(count=8, f32, sum), call 7, for rank 0, which "
      "has not come to that call: it waits, as rank 0 of world, as said");
}

TEST(WaitGraph, AnotherRunningThreadLeavesItUncertain) {
  Cycle cycle;
  cycle.second.free = 1;
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
  EXPECT_NE(cycle.graph().follow(100).find("another thread of its process may still come"), std::string::npos);
}

TEST(WaitGraph, AWaitYoungerThanTheOldestAnswerLeavesItUncertain) {
  Cycle cycle;
  cycle.second.waits[0].stuck_ms = 1100;
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
  cycle.second.waits[0].stuck_ms = 5000;
  cycle.first.age_ms = 4500;
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
}

TEST(WaitGraph, AMessageInFlightLeavesItUncertain) {
  Cycle cycle;
  cycle.first.waits[0].on[0].settled = 0;
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
  cycle.first.waits[0].on[0].settled = cycle.second.state();
  cycle.second.waits[0].ticket = 102;  // it has moved since
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
}

TEST(WaitGraph, AComputingRankIsNotInACycle) {
  Cycle cycle;
  cycle.second.waits.clear();
  cycle.second.free = 1;
  EXPECT_TRUE(cycle.graph().stuck(100).tickets.empty());
  EXPECT_EQ(cycle.graph().follow(100),
            "rank 0 of world waits in barrier(), call 3, for rank 1, which is in no call that waits for others (does "
            "it compute?)");
  EXPECT_TRUE(WaitGraph({cycle.first}).stuck(100).tickets.empty()) << "its process is unknown";
}

TEST(WaitGraph, WaitsOfOtherRanksOfTheProcessAreNotTheAwaitedRanks) {
  const ProcessWaits both{.process = 10, .free = 1, .waits = {wait(100, kWorld, 0, {{1, 10, 0}})}};
  EXPECT_EQ(WaitGraph({both}).follow(100),
            "rank 0 of world waits in barrier(), call 3, for rank 1, which is in no call "
            "that waits for others (does it compute?)");
}

/// Rank 0 also waits for rank 2, which computes: after rank 2 comes, rank 0 may send rank 1 what it waits for.
TEST(WaitGraph, ASecondAwaitedRankThatComputesLeavesItUncertain) {
  Cycle cycle;
  cycle.first.waits[0].on.push_back({2, 12, 77});
  const ProcessWaits third{.process = 12, .free = 1, .waits = {}};
  EXPECT_TRUE(WaitGraph({cycle.first, cycle.second, third}).stuck(100).tickets.empty());
}

TEST(WaitGraph, RanksInTheSameCallAreComparedByTicket) {
  ProcessWaits first{.process = 10, .free = 1, .waits = {wait(100, kWorld, 0, {{1, 11, 101}})}};
  ProcessWaits second{.process = 11, .free = 1, .waits = {wait(101, kWorld, 1, {{0, 10, 100}})}};
  EXPECT_EQ(WaitGraph({first, second}).stuck(100).tickets, (std::vector<uint64_t>{100, 101}))
      << "no other thread can receive for these ranks";
  second.waits[0].on[0].settled = 99;
  EXPECT_TRUE(WaitGraph({first, second}).stuck(100).tickets.empty());
}

/// Rank 0's thread waits for rank 1, whose stream waits for rank 0.
struct ThreadAndStream {
  ProcessWaits first{.process = 10, .free = 0, .age_ms = 100, .waits = {wait(100, kWorld, 0, {{1, 11, 101}})}};
  ProcessWaits second{.process = 11, .free = 0, .age_ms = 300, .waits = {wait(101, kWorld, 1, {{0, 10, 100}})}};
  ThreadAndStream() { second.waits[0].on_device = 1; }
  Stuck stuck() const { return WaitGraph({first, second}).stuck(100); }
};

TEST(WaitGraph, AThreadDependsOnThePeersThreadsWhoseStreamWaits) {
  ThreadAndStream both;
  EXPECT_EQ(both.stuck().tickets, (std::vector<uint64_t>{100, 101}));
  EXPECT_EQ(both.stuck().age_ms, 300U) << "of what is known of its threads";
  both.second.free = 1;
  EXPECT_TRUE(both.stuck().tickets.empty()) << "it computes, and may signal afterwards";
  both.first.waits[0].on_device = 1;
  EXPECT_EQ(both.stuck().tickets, (std::vector<uint64_t>{100, 101}))
      << "streams alone: threads cannot go ahead of them";
}

/// Rank 1's thread waits too: what it waits for counts, and not whether others of its process are free.
TEST(WaitGraph, AllWaitsOfAnAwaitedRankCount) {
  ThreadAndStream both;
  both.second.free = 1;
  both.second.waits.push_back(wait(102, kWorld, 1, {{0, 10, 100}}));
  EXPECT_EQ(both.stuck().tickets, (std::vector<uint64_t>{100, 101, 102}));
  both.second.waits[1].on = {{2, 12, 77}};
  EXPECT_TRUE(both.stuck().tickets.empty()) << "rank 2 may let it go on";
}

// ---- replies between processes

TEST(WaitTable, PassesOnWhatItLearnedWithItsAge) {
  WaitTable mine, theirs;
  const Cycle cycle;
  const std::vector<LinkCounts> links{
      {.peer = 0, .link_lane = 7, .sent = 5, .acked = 4, .received = 3, .acknowledged = 2},
      {.peer = 1, .link_lane = 7, .sent = 6, .acked = 6, .received = 6, .acknowledged = 6}};
  theirs.publish(&theirs, {.wait = cycle.second.waits[0], .threads = {}, .links = links, .fail = nullptr});
  const auto reply = mine.learn(10, theirs.answer(11, kPair, 1, 0, entered(6, 4)), 0.5);
  EXPECT_EQ(reply.entered.collectives, 6U);
  EXPECT_EQ(reply.entered.sends, 4U);
  EXPECT_EQ(reply.ticket, 101U);
  ASSERT_EQ(reply.links.size(), 1U) << "only the asker's links";
  EXPECT_EQ(reply.links[0].link_lane, 7U);
  EXPECT_EQ(reply.links[0].sent, 5U);
  EXPECT_EQ(reply.links[0].acknowledged, 2U);
  mine.publish(&mine, {.wait = cycle.first.waits[0], .threads = {}, .links = {}, .fail = nullptr});

  WaitTable third;
  const auto learned = third.learn(12, mine.answer(10, kWorld, 0, 2, entered(3)), 0.25);
  ASSERT_EQ(learned.processes.size(), 2U);
  EXPECT_EQ(learned.processes[0].process, 10U);
  EXPECT_EQ(learned.processes[1].process, 11U);
  EXPECT_GE(learned.processes[1].waits[0].age_ms, 750U) << "both reports add to its age";
  EXPECT_GE(learned.processes[1].age_ms, 750U);
  EXPECT_NE(third.graph(12).follow(100), "");
}

TEST(WaitTable, RemovesWithdrawnWaits) {
  WaitTable table;
  table.publish(&table, {.wait = Cycle().first.waits[0], .threads = {}, .links = {}, .fail = nullptr});
  table.withdraw(&table);
  WaitTable asking;
  const auto reply = asking.learn(11, table.answer(10, kWorld, 0, 1, entered(3)), 0);
  EXPECT_EQ(reply.ticket, 0U);
  ASSERT_EQ(reply.processes.size(), 1U);
  EXPECT_TRUE(reply.processes[0].waits.empty());
  EXPECT_EQ(reply.processes[0].free, 1);
}

TEST(WaitTable, FailsTheNamedWaits) {
  WaitTable table;
  std::vector<std::string> failed;
  const auto entry = [&](uint64_t ticket, const char* name) {
    return WaitTable::Entry{
        .wait = wait(ticket, kWorld, 0, {}),
        .threads = {},
        .links = {},
        .fail = [&failed, name](Code, const std::string& text, const auto&) { failed.push_back(name + text); }};
  };
  int a = 0, b = 0;
  table.publish(&a, entry(100, "a"));
  table.publish(&b, entry(200, "b"));
  table.fail(Code::Mismatch, "!", {3, 200, 300});
  EXPECT_EQ(failed, std::vector<std::string>{"b!"});
}

TEST(WaitTable, InvalidRepliesAreRefused) {
  WaitTable table;
  Cycle cycle;
  table.publish(&table, {.wait = cycle.first.waits[0], .threads = {}, .links = {}, .fail = nullptr});
  const std::string good = table.answer(10, kWorld, 0, 1, entered(3));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(table.learn(11, good.substr(0, length), 0), Error) << length;
  }
  EXPECT_THROW(table.learn(11, good + "x", 0), Error);
}

TEST(WaitTable, ARepliesSizeIsLimited) {
  WaitTable table;
  for (uint64_t p = 100; p < 400; ++p) {  // a long chain, reported by others
    WaitTable other;
    other.publish(&other, {.wait = wait(p, kWorld, static_cast<Rank>(p), {{static_cast<Rank>(p) + 1, p + 1, 1}}),
                           .threads = {},
                           .links = {},
                           .fail = nullptr});
    table.learn(10, other.answer(p, kWorld, static_cast<Rank>(p), 0, entered(3)), 0);
  }
  table.publish(&table, {.wait = wait(1, kWorld, 0, {{100, 100, 1}}), .threads = {}, .links = {}, .fail = nullptr});
  const std::string bytes = table.answer(10, kWorld, 0, 1, entered(3));
  EXPECT_LE(bytes.size(), kMaxEntry);
  EXPECT_GT(WaitTable().learn(11, bytes, 0).processes.size(), 50U);
}

}  // namespace
}  // namespace tutti::control
