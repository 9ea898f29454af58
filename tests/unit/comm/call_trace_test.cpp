// What a rank's trace has of its calls, and what it leaves out.
#include "comm/call_trace.hpp"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

using trace::Event;

CallSpec reduction_of(uint64_t count) {
  return {.collective = Collective::AllReduce, .type = DType::F32, .count = count};
}

std::vector<uint64_t> traced_calls(const CallTrace& trace) {
  std::vector<uint64_t> calls;
  for (const Event& event : trace.events().last) {
    if (event.kind == Event::Kind::Entered) calls.push_back(event.call);
  }
  return calls;
}

TEST(CallTrace, HasEveryLongCall) {
  CallTotals totals;
  CallTrace trace{totals};
  for (uint64_t call = 1; call <= 500; ++call) {
    trace.enter(call, reduction_of(CallTrace::kLong));
    trace.leave();
  }
  const auto events = trace.events().last;
  ASSERT_EQ(events.size(), 1000u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].kind, i % 2 == 0 ? Event::Kind::Entered : Event::Kind::Left);
    EXPECT_GE(events[i].at, events[i == 0 ? 0 : i - 1].at);
  }
}

TEST(CallTrace, OfManyShortCallsInARowHasTheFirstAndThenOneInSixtyFour) {
  CallTotals totals;
  CallTrace trace{totals};
  constexpr uint64_t kCalls = 640;
  for (uint64_t call = 1; call <= kCalls; ++call) {
    trace.enter(call, reduction_of(CallTrace::kLong - 1));
    trace.leave();
  }
  std::vector<uint64_t> expected;
  for (uint64_t call = 1; call <= CallTrace::kInARow; ++call) expected.push_back(call);
  for (uint64_t call = CallTrace::kInARow + 1; call <= kCalls; ++call) {
    if (CallTrace::rarity(call) >= CallTrace::kRare) expected.push_back(call);
  }
  EXPECT_NEAR(static_cast<double>(expected.size() - CallTrace::kInARow), kCalls / 64.0, 4);
  EXPECT_EQ(traced_calls(trace), expected);
  trace.enter(kCalls + 1, reduction_of(CallTrace::kLong));  // short calls count from here again
  trace.leave();
  trace.enter(kCalls + 2, reduction_of(1));
  EXPECT_EQ(traced_calls(trace).back(), kCalls + 2);
}

/// Enters a call that is left out, after a hundred short ones. Returns its number.
uint64_t enter_one_left_out(CallTrace& trace, CallBoard& board) {
  uint64_t call = 0;
  for (; call < 100; ++call) {
    trace.enter(call + 1, reduction_of(8));
    trace.leave();
  }
  const auto before = trace.events().last.size();
  board.enter(++call, reduction_of(8));
  trace.enter(call, reduction_of(8));
  EXPECT_EQ(trace.events().last.size(), before);
  return call;
}

TEST(CallTrace, HasALongWaitAndItsCallAlsoIfThatWasLeftOut) {
  CallTotals totals;
  CallTrace trace{totals};
  CallBoard board;
  const uint64_t call = enter_one_left_out(trace, board);
  const auto before = trace.events().last.size();
  const auto since = trace::Clock::now();
  trace.waited(board, 3, since);
  trace.fail(board, Code::PeerFailed);
  const auto events = trace.events().last;
  ASSERT_EQ(events.size(), before + 3);
  const Event &within = events[before], &wait = events[before + 1], &left = events[before + 2];
  EXPECT_EQ(within.kind, Event::Kind::Within);
  EXPECT_EQ(within.at, trace::nanoseconds(since));
  EXPECT_EQ(CallTrace::call_of(within).text, "all_reduce(count=8, f32, sum)");
  EXPECT_EQ(CallTrace::call_of(within).number, call);
  EXPECT_EQ(CallTrace::call_of(within).bytes, 32u);
  EXPECT_EQ(wait.kind, Event::Kind::Waited);
  EXPECT_EQ(wait.first, 3u);
  EXPECT_EQ(wait.second, within.at);
  EXPECT_GE(wait.at, wait.second);
  EXPECT_EQ(left.kind, Event::Kind::Left);
  EXPECT_EQ(left.first, static_cast<uint64_t>(Code::PeerFailed));
}

TEST(CallTrace, HasEveryCallThatFailed) {
  CallTotals totals;
  CallTrace trace{totals};
  CallBoard board;
  trace.fail(board, Code::Aborted);  // before any call
  EXPECT_TRUE(trace.events().last.empty());
  const uint64_t call = enter_one_left_out(trace, board);
  const auto before = trace.events().last.size();
  trace.fail(board, Code::Timeout);
  const auto events = trace.events().last;
  ASSERT_EQ(events.size(), before + 2);
  EXPECT_EQ(events[before].kind, Event::Kind::Within);
  EXPECT_EQ(events[before].call, call);
  EXPECT_EQ(events[before + 1].kind, Event::Kind::Left);
  EXPECT_EQ(events[before + 1].first, static_cast<uint64_t>(Code::Timeout));
}

TEST(CallTrace, ReadsTransfersByTheirPeer) {
  CallTotals totals;
  CallTrace trace{totals};
  const CallSpec spec{.collective = Collective::SendRecv, .type = DType::F64, .sends = true, .root = 5, .count = 2};
  trace.enter(transfer_key(true, 5, 17), spec);
  const trace::TracedCall call = CallTrace::call_of(trace.events().last.front());
  EXPECT_EQ(call.number, 17u);
  EXPECT_EQ(call.peer, 5);
  EXPECT_TRUE(call.sends);
  EXPECT_EQ(call.bytes, 16u);
  EXPECT_EQ(call.text, "send(count=2, f64, to rank 5)");
}

}  // namespace
}  // namespace tutti::comm
