// What the call board, the status, the trace and the totals have of one-sided calls.
#include "comm/one_sided.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "comm/call_board.hpp"
#include "comm/call_trace.hpp"
#include "control/status/status.hpp"
#include "tutti/tutti.h"

namespace tutti::comm {
namespace {

using trace::Event;
using What = OneSided::What;

const OneSided kWait{.what = What::WaitSignal, .peer = 1, .signal = 2, .count = 3};
const OneSided kPut{.what = What::Put, .peer = 5, .bytes = 4096, .offset = 64};

TEST(OneSided, AreWordsOnTheBoard) {
  CallBoard board;
  board.enter_one_sided(one_sided_key(7), spec_of(kWait));
  EXPECT_EQ(describe(*board.last()), "wait_signal(3 of signal 2, from rank 1)");
  EXPECT_EQ(number_of_transfer(board.last_key()), 7u);
  EXPECT_EQ(board.transfers(), 0u);
  EXPECT_EQ(board.begun(), 0u) << "it is not numbered with the collectives";
  for (int what = 0; what < kOneSidedCalls; ++what) {
    const CallSpec spec = spec_of({.what = static_cast<What>(what), .peer = OneSided::kAllPeers, .signal = 7});
    EXPECT_EQ(unpack_spec(spec.kinds(), spec.count), spec) << describe(spec);
    EXPECT_NE(std::string(name_of(spec.call_on_window())), "?");
  }
  EXPECT_EQ(describe(spec_of(kPut)), "put(4096 bytes, to rank 5)");
  EXPECT_EQ(describe(kPut), "put(4096 bytes, to rank 5 at offset 64)");
  EXPECT_EQ(describe(spec_of({.what = What::Flush, .peer = OneSided::kAllPeers})), "flush()");
}

TEST(OneSided, AreSampledApartFromCollectives) {
  CallTotals totals;
  CallTrace trace{totals};
  uint64_t traced = 0;
  for (uint64_t call = 1; call <= 640; ++call) traced += trace.samples_one_sided(call, 8) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(traced), CallTrace::kInARow + 9, 4);
  EXPECT_TRUE(trace.samples_one_sided(641, CallTrace::kLong));
  trace.enter(1, {.count = 8});
  EXPECT_EQ(trace.events().last.size(), 1u) << "the first one of the collectives";
}

TEST(OneSided, AreTracedWithTheirPeer) {
  CallTotals totals;
  CallTrace trace{totals};
  trace.enter_one_sided(9, spec_of(kPut));
  trace.leave();
  const auto events = trace.events().last;
  ASSERT_EQ(events.size(), 2u);
  const trace::TracedCall call = CallTrace::call_of(events[0]);
  EXPECT_EQ(call.number, 9u);
  EXPECT_EQ(call.text, "put(4096 bytes, to rank 5)");
  EXPECT_EQ(call.bytes, 4096u);
  EXPECT_EQ(call.peer, 5);
  EXPECT_TRUE(call.one_sided);
  EXPECT_EQ(events[1].kind, Event::Kind::Left);
}

/// Two ranks of this process, each with a window, on threads of their own.
class TwoRanks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(tuttiCommInitAll(comms_.data(), 2), tuttiSuccess) << tuttiGetLastError();
    both([&](size_t rank) {
      ASSERT_EQ(tuttiWindowRegister(comms_[rank], words_[rank].data(), 64, &windows_[rank]), tuttiSuccess);
    });
  }
  void TearDown() override {
    both([&](size_t rank) {
      EXPECT_EQ(tuttiWindowDeregister(windows_[rank]), tuttiSuccess) << tuttiGetLastError();
      EXPECT_EQ(tuttiCommDestroy(comms_[rank]), tuttiSuccess) << tuttiGetLastError();
    });
  }
  template <class Body>
  static void both(Body&& body) {
    std::jthread other([&] { body(1); });
    body(0);
  }
  static control::RankStatus status_of(Rank rank) {
    for (auto& status : control::StatusBook::of_this_process().read().ranks) {
      if (status.rank == rank) return status;
    }
    return {};
  }

  std::array<tuttiComm_t, 2> comms_{};
  std::array<tuttiWindow_t, 2> windows_{};
  std::array<std::array<uint64_t, 8>, 2> words_{};
};

TEST_F(TwoRanks, ShowForWhatASignalIsAwaited) {
  std::jthread waits(
      [&] { EXPECT_EQ(tuttiWaitSignal(1, 0, 1, windows_[0], nullptr), tuttiSuccess) << tuttiGetLastError(); });
  const Deadline deadline = Deadline::in(20);
  control::RankStatus status;
  while (status.stuck_ms == 0 && !deadline.passed()) status = status_of(0);
  EXPECT_GT(status.stuck_ms, 0u);
  EXPECT_EQ(status.call, "wait_signal(1 of signal 0, from rank 1)");
  EXPECT_EQ(status.awaited, std::vector<Rank>{1});
  EXPECT_EQ(status.entered, status.left) << "it is in no collective";
  EXPECT_EQ(tuttiSignal(0, 0, windows_[1], nullptr), tuttiSuccess);
  waits.join();
  EXPECT_EQ(status_of(0).stuck_ms, 0u);
  EXPECT_GE(status_of(0).waited_ms, 200u);
}

TEST_F(TwoRanks, AreInTheMetricsByCallAndSize) {
  const uint64_t word = 5;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(tuttiPutSignal(&word, 8, 1, 0, 3, windows_[0], nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiWaitSignal(0, 3, 1, windows_[1], nullptr), tuttiSuccess);
  }
  std::array<uint64_t, 2> got{};
  EXPECT_EQ(tuttiGet(got.data(), 16, 0, 0, windows_[1], nullptr), tuttiSuccess);
  uint64_t puts = 0, waits = 0, received = 0;
  for (const auto& rank : control::StatusBook::of_this_process().metrics().ranks) {
    for (const auto& calls : rank.calls) {
      if (calls.collective == "put_signal" && rank.rank == 0) {
        puts = calls.calls;
        EXPECT_EQ(calls.sent, 800u);
      }
      if (calls.collective == "wait_signal" && rank.rank == 1) waits = calls.calls;
      if (calls.collective == "get") received += calls.received;
    }
  }
  EXPECT_EQ(puts, 100u);
  EXPECT_EQ(waits, 100u);
  EXPECT_EQ(received, 16u);
  tuttiTraffic traffic{.size = sizeof traffic, .sent = 1};
  EXPECT_EQ(tuttiCommGetTraffic(comms_[0], &traffic), tuttiSuccess);
  EXPECT_EQ(traffic.sent, 0u) << "plans have sent nothing";
  const std::string page = control::StatusBook::of_this_process().trace("here");
  EXPECT_NE(page.find(R"--("put_signal(8 bytes, to rank 1, signal 3)",8,1,"on"])--"), std::string::npos) << page;
}

}  // namespace
}  // namespace tutti::comm
