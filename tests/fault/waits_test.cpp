// Every wait ends: by a deadline, or by an abort from another thread; and signals do not end it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "fault/clock.hpp"
#include "fault/threads.hpp"
#include "support/scoped_env.hpp"

namespace tutti::fault {
namespace {

bool holds(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(TimeOut, NamesTheMissingRankAndItsLastCall) {
  const test::ScopedEnv limit("TUTTI_TIMEOUT", "1");
  std::latch over(2);
  with_ranks(
      3,
      [&](int rank, tuttiComm_t comm) {
        expect_usable(comm);
        if (rank == 1) return over.wait();  // computes for too long
        const double start = now();
        EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout);
        EXPECT_LT(now() - start, 4);
        const std::string text = tuttiGetLastError();
        EXPECT_TRUE(holds(text, " waited 1.")) << text;
        EXPECT_TRUE(holds(text, "barrier(), call 2")) << text;
        EXPECT_TRUE(holds(text, "rank 1 is alive and has not entered call 2")) << text;
        EXPECT_TRUE(holds(text, "its last call: all_reduce(count=1000, i32, sum)")) << text;
        EXPECT_TRUE(holds(text, "Raise TUTTI_TIMEOUT")) << text;
        over.count_down();
      },
      tuttiTimeout);
}

TEST(TimeOut, SaysOnceWhatTheAwaitedRankDoes) {
  const test::ScopedEnv limit("TUTTI_TIMEOUT", "3");
  std::latch over(1);
  with_ranks(
      2,
      [&](int rank, tuttiComm_t comm) {
        if (rank == 1) {  // computes; a thread that only waited would be part of a deadlock
          while (!over.try_wait()) std::this_thread::yield();
          return;
        }
        EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiTimeout);
        const std::string text = tuttiGetLastError();
        const size_t first = text.find("rank 1 is alive and has not entered call 1");
        EXPECT_NE(first, std::string::npos) << text;
        EXPECT_FALSE(holds(text.substr(first + 6), "rank 1")) << text;
        EXPECT_EQ(text.find("barrier()"), text.rfind("barrier()")) << text;
        over.count_down();
      },
      tuttiTimeout);
}

TEST(SharedStream, OfTwoRanksIsNamedAsTheCause) {
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  std::vector<tuttiComm_t> comms(2);
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess);
  std::vector<float> data(8, 1);
  const double start = now();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiAllReduce(&data[rank * 4], &data[rank * 4], 4, tuttiFloat32, tuttiSum, comms[rank], stream),
              tuttiSuccess);
  }
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiInvalidUsage);
  const std::string text = tuttiGetLastError();
  EXPECT_TRUE(holds(text, "rank 0 and rank 1 use one stream, which runs one call after the other")) << text;
  EXPECT_TRUE(holds(text, "Give each rank a stream of its own")) << text;
  EXPECT_LT(now() - start, 20) << "long before TUTTI_TIMEOUT";
  for (tuttiComm_t comm : comms) tuttiCommRelease(comm);
  // In a group both run at the same time.
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(tuttiAllReduce(&data[rank * 4], &data[rank * 4], 4, tuttiFloat32, tuttiSum, comms[rank], stream),
              tuttiSuccess);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(data[0], 2);
  run_ranks(2, [&](int rank) { EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess); });
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
}

/// Rank 0 aborts while the others wait in `call`, which it never makes.
void abort_while_others(const std::function<tuttiResult_t(int, tuttiComm_t)>& call) {
  std::latch waiting(2);
  with_ranks(
      3,
      [&](int rank, tuttiComm_t comm) {
        expect_usable(comm);
        const double start = now();
        if (rank == 0) {
          waiting.wait();
          EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
        } else {
          waiting.count_down();
          EXPECT_EQ(call(rank, comm), tuttiAborted) << tuttiGetLastError();
          EXPECT_TRUE(holds(tuttiGetLastError(), "rank 0 ")) << tuttiGetLastError();
        }
        EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiAborted);
        EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiAborted);
        tuttiResult_t failure = tuttiSuccess;
        EXPECT_EQ(tuttiCommGetAsyncError(comm, &failure), tuttiSuccess);
        EXPECT_EQ(failure, tuttiAborted);
        EXPECT_TRUE(holds(tuttiCommGetErrorText(comm), "aborted")) << tuttiCommGetErrorText(comm);
        EXPECT_LT(now() - start, 5);
      },
      tuttiAborted);
}

TEST(Abort, EndsAWaitForAMessage) {
  abort_while_others([](int, tuttiComm_t comm) { return tuttiBarrier(comm, nullptr); });
}

TEST(Abort, EndsAWaitForZeroCopyReaders) {
  std::vector<float> data(1 << 20);
  abort_while_others([&](int rank, tuttiComm_t comm) {
    std::vector<float> mine(rank == 1 ? data : std::vector<float>(data.size()));
    return tuttiAllReduce(mine.data(), mine.data(), mine.size(), tuttiFloat32, tuttiSum, comm, nullptr);
  });
}

/// All-reduces until another thread aborts; then the buffers are freed at once. The sanitizers would detect any later
/// access.
TEST(Abort, EndsAccessToBuffersOnReturn) {
  constexpr int kRanks = 3;
  for (int round = 0; round < 20; ++round) {
    std::latch running(kRanks);
    std::atomic<tuttiComm_t> any = nullptr;
    std::thread aborter([&] {
      running.wait();
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      EXPECT_EQ(tuttiCommAbort(any), tuttiSuccess);
    });
    with_ranks(
        kRanks,
        [&](int rank, tuttiComm_t comm) {
          if (rank == 0) any = comm;
          const size_t count = 300000;
          auto in = std::make_unique<float[]>(count), out = std::make_unique<float[]>(count);
          running.count_down();
          tuttiResult_t result = tuttiSuccess;
          for (int call = 0; result == tuttiSuccess; ++call) {
            result = call % 2 == 0
                         ? tuttiAllReduce(in.get(), out.get(), count, tuttiFloat32, tuttiSum, comm, nullptr)
                         : tuttiBroadcast(in.get(), out.get(), count, tuttiFloat32, call % kRanks, comm, nullptr);
          }
          EXPECT_EQ(result, tuttiAborted) << tuttiGetLastError();
          std::fill(in.get(), in.get() + count, 1.0F);
          std::fill(out.get(), out.get() + count, 1.0F);
          in.reset();
          EXPECT_EQ(std::count(out.get(), out.get() + count, 1.0F), static_cast<ptrdiff_t>(count));
          out.reset();
          if (rank == 0) aborter.join();  // before the communicator is destroyed
        },
        tuttiAborted);
  }
}

TEST(Abort, EndsAFullLink) {
  abort_while_others([](int rank, tuttiComm_t comm) {
    tuttiResult_t result = tuttiSuccess;
    for (int i = 0; i < 100 && result == tuttiSuccess; ++i) result = tuttiSend(&i, 1, tuttiInt32, 0, comm, nullptr);
    return rank == 0 ? tuttiSuccess : result;
  });
}

TEST(Abort, EndsCallsOnStreams) {
  std::latch queued(2);
  with_ranks(
      2,
      [&](int rank, tuttiComm_t comm) {
        tuttiStream_t stream = nullptr;
        ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
        if (rank == 1) {
          for (int i = 0; i < 5; ++i) EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
        }
        queued.arrive_and_wait();
        if (rank == 0) {
          EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
        } else {
          EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
        }
        EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
      },
      tuttiAborted);
}

TEST(Abort, MayRaceWithDestroy) {
  for (int i = 0; i < 20; ++i) {
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommInitAll(&comm, 1), tuttiSuccess);
    std::latch both(2);
    std::thread other([&] {
      both.arrive_and_wait();
      const tuttiResult_t aborted = tuttiCommAbort(comm);
      EXPECT_TRUE(aborted == tuttiSuccess || aborted == tuttiInvalidUsage) << tuttiGetLastError();
    });
    both.arrive_and_wait();
    const tuttiResult_t destroyed = tuttiCommDestroy(comm);
    EXPECT_TRUE(destroyed == tuttiSuccess || destroyed == tuttiAborted) << tuttiGetLastError();
    other.join();
  }
}

std::atomic<int> g_signals{0};

TEST(Signals, AreHarmless) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { g_signals.fetch_add(1); };  // no SA_RESTART: system calls are interrupted
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 500}, {0, 500}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  with_ranks(3, [](int, tuttiComm_t comm) {
    for (int i = 0; i < 300; ++i) expect_usable(comm, i % 3 == 0 ? 50000 : 10);
  });
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(g_signals.load(), 10);
}

}  // namespace
}  // namespace tutti::fault
