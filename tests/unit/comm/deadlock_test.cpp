// Deadlocks across communicators and calls: detected long before the time-out.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/stalls.hpp"
#include "control/wait_table.hpp"
#include "support/scoped_env.hpp"
#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using comm::NumberedCall;
using comm::StalledCall;

#if defined(__SANITIZE_THREAD__)
constexpr bool kOnlyOurThreads = false;  // the sanitizer has a thread of its own that wakes by itself
#else
constexpr bool kOnlyOurThreads = true;
#endif

struct LineResult {
  tuttiResult_t result = tuttiSuccess;
  std::string words;
};

void expect_words(const LineResult& report, const std::vector<std::string>& parts) {
  EXPECT_EQ(report.result, tuttiMismatch) << report.words;
  for (const std::string& part : parts)
    EXPECT_NE(report.words.find(part), std::string::npos) << part << ": " << report.words;
}

class Deadlock : public testing::Test {
 protected:
  void SetUp() override {
    if (!kOnlyOurThreads) GTEST_SKIP() << "what a thread of the sanitizer's will do cannot be known";
  }
  const test::ScopedEnv patient_{"TUTTI_TIMEOUT", "50"};
};

LineResult of(tuttiResult_t result) { return {result, result == tuttiSuccess ? "" : tuttiGetLastError()}; }

/// What `body` returns on each of two ranks.
std::vector<LineResult> on_two_ranks(const std::function<LineResult(int rank, tuttiComm_t comm)>& body) {
  std::vector<tuttiComm_t> comms(2);
  std::vector<LineResult> report(2);
  EXPECT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess);
  run_ranks(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    report[r] = body(rank, comms[r]);
    tuttiCommDestroy(comms[r]);
  });
  return report;
}

/// What `body` returns on each of `n` ranks, of which ranks 0 and 1 also form a pair, in reverse order.
std::vector<LineResult> with_pair(
    int n, const std::function<LineResult(int rank, tuttiComm_t world, tuttiComm_t pair)>& body) {
  std::vector<tuttiComm_t> worlds(static_cast<size_t>(n));
  std::vector<LineResult> report(worlds.size());
  EXPECT_EQ(tuttiCommInitAll(worlds.data(), n), tuttiSuccess);
  run_ranks(n, [&](int rank) {
    const tuttiComm_t world = worlds[static_cast<size_t>(rank)];
    tuttiComm_t pair = nullptr;
    ASSERT_EQ(tuttiCommSplit(world, rank < 2 ? 5 : TUTTI_NO_COLOUR, -rank, &pair), tuttiSuccess);
    report[static_cast<size_t>(rank)] = body(rank, world, pair);
    if (pair != nullptr) tuttiCommDestroy(pair);
    tuttiCommDestroy(world);
  });
  return report;
}

LineResult barrier(tuttiComm_t comm) { return of(tuttiBarrier(comm, nullptr)); }

TEST_F(Deadlock, OfTwoCommunicatorsInDifferentOrderFailsEveryRank) {
  const auto start = std::chrono::steady_clock::now();
  const auto report = with_pair(3, [](int rank, tuttiComm_t world, tuttiComm_t pair) {
    barrier(world);
    const LineResult first = barrier(rank == 0 ? pair : world);
    return first.result != tuttiSuccess || rank == 2 ? first : barrier(rank == 0 ? world : pair);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  for (const LineResult& one : report) {
    expect_words(one, {"ranks wait for each other, and none of them can go on", "of 3 ranks", "barrier(), call 3",
                       "split of communicator", "(colour 5, ranks 1, 0)", "barrier(), call 1"});
  }
}

TEST_F(Deadlock, OfTwoReceivesFailsBothRanks) {
  const auto report = on_two_ranks([](int rank, tuttiComm_t comm) {
    int data = 0;
    return of(tuttiRecv(&data, 1, tuttiInt32, 1 - rank, comm, nullptr));
  });
  for (const LineResult& one : report) {
    expect_words(one, {"ranks wait for each other", "waits in recv(count=1, i32, from rank 1), for rank 1, which waits",
                       "recv(count=1, i32, from rank 0)"});
  }
}

/// Rank 0's messages lie unread, since rank 1 is in another call: they let neither continue.
TEST_F(Deadlock, OfACollectiveAndSentTransfersFailsBothRanks) {
  const auto report = on_two_ranks([](int rank, tuttiComm_t comm) {
    std::vector<unsigned char> out(5000), in(5000);
    if (rank == 1) return of(tuttiBroadcast(out.data(), in.data(), in.size(), tuttiUint8, 0, comm, nullptr));
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiSend(out.data(), out.size(), tuttiUint8, 1, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(in.data(), in.size(), tuttiUint8, 1, comm, nullptr), tuttiSuccess);
    return of(tuttiGroupEnd());
  });
  for (const LineResult& one : report) {
    expect_words(one, {"ranks wait for each other", "broadcast(count=5000, u8, root=0), call 1",
                       "a group of 2 transfers beginning with send(count=5000, u8, to rank 1)"});
  }
}

/// Rank 0's staging memory is full of a message that rank 1 does not receive, since it waits for the next one.
TEST_F(Deadlock, ThroughFullStagingMemoryFailsBothRanks) {
  const test::ScopedEnv little("TUTTI_ARENA", "128K");
  const auto report = on_two_ranks([](int rank, tuttiComm_t comm) {
    std::vector<unsigned char> out(5000), in(5000);
    if (rank == 0) {
      EXPECT_EQ(tuttiSend(out.data(), 1000, tuttiUint8, 1, comm, nullptr), tuttiSuccess);
    }
    LineResult last;
    for (size_t count = 100; last.result == tuttiSuccess && count < 5000; count += 10) {
      last = of(tuttiAllReduce(out.data(), in.data(), count, tuttiUint8, tuttiSum, comm, nullptr));
    }
    return last;
  });
  for (const LineResult& one : report) expect_words(one, {"ranks wait for each other", "waits in all_reduce(count="});
  auto& table = control::WaitTable::of_this_process();
  EXPECT_TRUE(
      table.learn(1, table.answer(1, 0, 0, 0, [] { return control::Entered{}; }), 0).processes.front().waits.empty())
      << "a call that could not begin has ended, and waits for nobody";
}

TEST_F(Deadlock, OfASplitAndAReceiveFailsBothRanks) {
  const auto report = on_two_ranks([](int rank, tuttiComm_t comm) {
    unsigned char data = 0;
    tuttiComm_t part = nullptr;
    const auto receive = [&] { return tuttiRecv(&data, 1, tuttiUint8, 0, comm, nullptr); };
    EXPECT_EQ(rank == 0 ? tuttiSend(&data, 1, tuttiUint8, 1, comm, nullptr) : receive(), tuttiSuccess);
    return of(rank == 0 ? tuttiCommSplit(comm, 0, 0, &part) : receive());
  });
  for (const LineResult& one : report) {
    expect_words(one, {"ranks wait for each other", "in split(), call 1", "recv(count=1, u8, from rank 0)"});
  }
}

/// Ranks 0 and 2 split the world; rank 1 waits for rank 0 in the pair.
TEST_F(Deadlock, OfASplitAndACallOfAnotherCommunicatorFailsEveryRank) {
  const auto report = with_pair(3, [](int rank, tuttiComm_t world, tuttiComm_t pair) {
    if (rank == 1) return barrier(pair);
    tuttiComm_t part = nullptr;
    return of(tuttiCommSplit(world, 0, 0, &part));
  });
  for (const LineResult& one : report) {
    expect_words(one, {"ranks wait for each other, and none of them can go on", "in split(), call 2",
                       "split of communicator", "barrier(), call 1"});
  }
}

TEST(Absent, IsARankThatHasEnteredNothingOfWhatIsReceived) {
  const auto transfer = [](bool sends, Rank peer, uint64_t number) {
    NumberedCall one{.call = {}, .number = number};
    one.call.spec = {.collective = Collective::SendRecv, .sends = sends, .root = peer};
    return one;
  };
  const std::vector<NumberedCall> group{transfer(true, 1, 3), transfer(false, 2, 9), transfer(false, 1, 5),
                                        transfer(false, 1, 6)};
  const StalledCall call{.text = "", .number = 0, .group = &group};
  EXPECT_TRUE(comm::is_absent(call, 1, {.collectives = 0, .sends = 4}));
  EXPECT_FALSE(comm::is_absent(call, 1, {.collectives = 0, .sends = 5})) << "the fifth message may be under way";
  EXPECT_TRUE(comm::is_absent(call, 2, {.collectives = 0, .sends = 8}));
  EXPECT_FALSE(comm::is_absent(call, 2, {.collectives = 0, .sends = control::Entered::kUnknown}));
  EXPECT_FALSE(comm::is_absent(call, 3, {.collectives = 0, .sends = 0})) << "nothing is received from it";
  EXPECT_FALSE(comm::is_absent({.text = "", .number = 0, .group = nullptr}, 1, {.collectives = 9, .sends = 0}));
}

TEST(Absent, IsARankThatHasNotEnteredTheCollective) {
  const StalledCall call{.text = "", .number = 7, .group = nullptr};
  EXPECT_TRUE(comm::is_absent(call, 1, {.collectives = 6, .sends = 0}));
  EXPECT_FALSE(comm::is_absent(call, 1, {.collectives = 7, .sends = 0}));
}

/// What is under way on a wire is not known; but rank 1 says that it has sent the first messages alone.
TEST_F(Deadlock, OfAReceiveOverTcpAndACallOfAnotherCommunicatorFailsBothRanks) {
  const test::ScopedEnv wire("TUTTI_TRANSPORT", "tcp");
  const auto report = with_pair(2, [](int rank, tuttiComm_t world, tuttiComm_t pair) {
    unsigned char data = 0;
    const int peer = rank;  // the pair has the two in reverse order
    const auto receive = [&] { return tuttiRecv(&data, 1, tuttiUint8, peer, pair, nullptr); };
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(rank == 1 ? tuttiSend(&data, 1, tuttiUint8, peer, pair, nullptr) : receive(), tuttiSuccess);
    }
    return rank == 1 ? barrier(world) : of(receive());
  });
  for (const LineResult& one : report)
    expect_words(one, {"ranks wait for each other", "in recv(count=1, u8, from rank 0)", "barrier(), call 2"});
}

/// Until rank 1's other thread has made its call, rank 1 may come at any time: no deadlock is reported.
TEST(NoDeadlock, WhileAThreadOfARankMayStillMakeTheCall) {
  const test::ScopedEnv patient("TUTTI_TIMEOUT", "120");
  const auto report = with_pair(2, [](int rank, tuttiComm_t world, tuttiComm_t pair) {
    if (rank == 0) {
      const LineResult first = barrier(world);
      return first.result != tuttiSuccess ? first : barrier(pair);
    }
    LineResult late;
    std::thread other([&] {
      // Only time can show that nothing is reported: this is longer than it takes to find a deadlock.
      std::this_thread::sleep_for(std::chrono::seconds(6));
      late = barrier(world);
    });
    const LineResult mine = barrier(pair);
    other.join();
    return mine.result != tuttiSuccess ? mine : late;
  });
  for (const LineResult& one : report) EXPECT_EQ(one.result, tuttiSuccess) << one.words;
}

TEST(NoDeadlock, WhileARankIsOnlySlow) {
  const test::ScopedEnv patient("TUTTI_TIMEOUT", "120");
  const auto report = with_pair(3, [](int rank, tuttiComm_t world, tuttiComm_t pair) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::seconds(6));  // as above: only time can show it
    const LineResult first = barrier(world);
    return first.result != tuttiSuccess || rank == 2 ? first : barrier(pair);
  });
  for (const LineResult& one : report) EXPECT_EQ(one.result, tuttiSuccess) << one.words;
}

/// The time-out's text says that the rank is in no call.
TEST(NoDeadlock, WhileARankComputes) {
  const test::ScopedEnv impatient("TUTTI_TIMEOUT", "3");
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  const auto report = with_pair(2, [&](int rank, tuttiComm_t world, tuttiComm_t) {
    if (rank == 0) {
      LineResult one = barrier(world);
      const std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
      return one;
    }
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return over; });
    return LineResult{};
  });
  EXPECT_EQ(report[0].result, tuttiTimeout);
  EXPECT_NE(report[0].words.find("rank 1 is alive and has not entered call 2 (its last call: split())"),
            std::string::npos)
      << report[0].words;
}

}  // namespace
}  // namespace tutti
