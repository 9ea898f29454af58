// Which calls a rank tells of, for others to compare.
#include "comm/rank_timing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "comm/call_trace.hpp"

namespace tutti::comm {
namespace {

constexpr CallSpec kReduction{.collective = Collective::AllReduce, .type = DType::F32, .count = CallTrace::kLong};
constexpr uint64_t kLasts = 500;  // nanoseconds

/// The events of a rank that has made calls of this kind, with these numbers, just now.
std::vector<trace::Event> events_of(const CallSpec& spec, uint64_t first, uint64_t last) {
  std::vector<trace::Event> events;
  uint64_t now = trace::nanoseconds(trace::Clock::now()) - (last - first + 1) * 1000;
  for (uint64_t call = first; call <= last; ++call, now += 1000) {
    events.push_back({.at = now, .call = call, .first = spec.kinds(), .second = spec.count});
    events.push_back({.kind = trace::Event::Kind::Left, .at = now + kLasts, .call = 5, .second = call * kLasts});
  }
  return events;
}

TEST(RankTiming, HasEveryCallWhereThereAreFew) {
  const auto timing = timing_of(events_of(kReduction, 7, 12));
  EXPECT_EQ(timing.numbers, (std::vector<uint64_t>{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(timing.in_calls, (std::vector<uint64_t>{3500, 4000, 4500, 5000, 5500, 6000}));
  ASSERT_EQ(timing.left.size(), 6u);
  EXPECT_EQ(timing.left[5] - timing.left[0], 5000u);
  EXPECT_EQ(timing.thread, 5u);
}

TEST(RankTiming, OfManyHasSomeThatAllRanksHave) {
  for (const uint64_t calls : {17, 100, 1000, 2000}) {
    const auto one = timing_of(events_of(kReduction, 1, calls)).numbers;
    EXPECT_LE(one.size(), control::RankTiming::kMaxCalls);
    EXPECT_GE(one.size(), control::RankTiming::kMaxCalls / 8);
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
    const auto other = timing_of(events_of(kReduction, 1 + calls / 20, calls + calls / 20)).numbers;  // asked later
    std::vector<uint64_t> both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    EXPECT_GE(2 * both.size() + 4, std::min(one.size(), other.size())) << calls;
  }
}

TEST(RankTiming, MeetsAllCallsOfAProgramThatRepeatsItself) {
  for (const uint64_t period : {2, 8, 64}) {
    std::vector<size_t> met(period);
    for (uint64_t call = 1; call <= 64 * 64 * period; ++call)
      met[call % period] += CallTrace::rarity(call) >= 6 ? 1 : 0;
    EXPECT_GT(*std::min_element(met.begin(), met.end()), 32u) << period;
  }
}

TEST(RankTiming, HasNoCallThatARankMayLeaveBeforeAllHaveEntered) {
  for (const Collective collective :
       {Collective::Broadcast, Collective::Reduce, Collective::Gather, Collective::Scatter, Collective::SendRecv}) {
    EXPECT_TRUE(timing_of(events_of({.collective = collective, .count = 1 << 20}, 1, 5)).numbers.empty());
  }
  EXPECT_TRUE(timing_of(events_of({.collective = Collective::AllReduce, .count = 0}, 1, 5)).numbers.empty());
  EXPECT_TRUE(
      timing_of(events_of({.collective = Collective::AllGather, .is_vector = true, .count = 0}, 1, 5)).numbers.empty());
  EXPECT_EQ(timing_of(events_of({.collective = Collective::Barrier}, 1, 5)).numbers.size(), 5u);
}

TEST(RankTiming, HasNoCallOfAGroupOrThatFailedOrRunsOrWasEnqueued) {
  auto events = events_of(kReduction, 1, 4);
  events[0].kind = trace::Event::Kind::Enqueued;
  events[3].first = 1;               // call 2 failed
  events.erase(events.begin() + 5);  // calls 3 and 4 ended together
  auto running = events_of(kReduction, 5, 5).front();
  events.push_back(running);
  EXPECT_TRUE(timing_of(events).numbers.empty());
  EXPECT_TRUE(timing_of({}).numbers.empty());
}

/// The time in calls that the last event tells.
uint64_t time_in_calls(const CallTrace& trace) { return trace.events().last.back().second; }

TEST(RankTiming, CountsShortCallsAlikeWhetherTheyAreTracedOrNot) {
  CallTotals totals;
  CallTrace traced{totals}, left_out{totals};
  CallBoard board;
  constexpr CallSpec kShort{.collective = Collective::AllReduce, .type = DType::F32, .count = 8};
  board.enter(1, kShort);
  for (uint64_t call = 1; call <= 2 * CallTrace::kInARow; ++call) {
    left_out.enter(call, kShort);
    left_out.leave();
  }
  traced.enter(1, kShort);
  const uint64_t before = trace::nanoseconds(trace::Clock::now());
  while (trace::nanoseconds(trace::Clock::now()) < before + 100'000) continue;  // it does not wait, but lasts
  traced.leave();
  const uint64_t first = time_in_calls(traced);
  traced.enter(2, kShort);
  traced.leave();
  EXPECT_EQ(time_in_calls(traced), first) << "a short call that does not wait for long counts nothing";
  const auto since = trace::Clock::now();
  traced.enter(3, kShort);
  while (trace::Clock::now() - since < std::chrono::milliseconds(1)) continue;
  traced.waited(board, 1, since);
  traced.leave();
  const uint64_t waited = time_in_calls(traced);
  EXPECT_GE(waited, first + 1'000'000);
  left_out.waited(board, 1, since);  // at the same time, on the same thread: in a group
  left_out.leave();
  EXPECT_LT(time_in_calls(left_out), waited + 1'000'000) << "no moment counts twice";
}

TEST(RankTiming, CountsLongCallsWhole) {
  CallTotals totals;
  CallTrace trace{totals};
  trace.enter(1, kReduction);
  trace.leave();
  const uint64_t before = time_in_calls(trace);
  trace.enter(2, kReduction);
  const auto since = trace::Clock::now();
  while (trace::Clock::now() - since < std::chrono::milliseconds(1)) continue;
  trace.leave();
  EXPECT_GE(time_in_calls(trace), before + 1'000'000);
}

TEST(RankTiming, HasTheCallsOfTheThreadThatMadeTheLastOne) {
  auto events = events_of(kReduction, 1, 4);
  events[3].call = events[7].call = 6;
  const auto timing = timing_of(events);
  EXPECT_EQ(timing.numbers, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(timing.thread, 6u);
}

TEST(RankTiming, HasNoCallOfLongAgo) {
  auto events = events_of(kReduction, 1, 4);
  for (size_t i = 0; i < 4; ++i) events[i].at -= 3'000'000'000;
  EXPECT_EQ(timing_of(events).numbers, (std::vector<uint64_t>{3, 4}));
}

}  // namespace
}  // namespace tutti::comm
