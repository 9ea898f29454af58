// Windows in memory of GPUs whose ranks are of several hosts: what the proxy does beyond the calls that
// windows_test.cpp has on them as well.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "windows/gpu_job.hpp"

namespace tutti::test {
namespace {

/// More than all slots hold, and not a multiple of anything.
constexpr size_t kLong = (6 << 20) + 4099;

/// What is put is got again, by the one that has put it and by its reader.
void put_and_get(const Member& me, size_t bytes, tuttiStream_t on, const GpuStream& stream) {
  constexpr size_t kAt = 13;
  const Bytes mine = bytes_of(me.rank, 2, bytes), theirs = bytes_of(me.previous(), 2, bytes);
  const Memory source(me, bytes), target(me, bytes + 16);
  source.set(0, mine);
  const Part part(me, bytes + 32);
  OK(tuttiPut(source.at(), bytes, me.next(), kAt, part.window, on));
  OK(tuttiFlush(me.next(), part.window, on));
  OK(tuttiGet(target.at(3), bytes, me.next(), kAt, part.window, on));
  OK(tuttiWindowBarrier(part.window, on));
  stream.synchronize();
  EXPECT_TRUE(target.get(3, bytes) == mine);
  EXPECT_TRUE(target.get(0, 3) == Bytes(3, 0xEE) && target.get(bytes + 3, 13) == Bytes(13, 0xEE));
  Bytes expected(bytes + 32, 0xEE);
  std::copy(theirs.begin(), theirs.end(), expected.begin() + kAt);
  EXPECT_TRUE(part.memory.all() == expected);
  me.meet();
}

TEST(GpuFarWindows, LongPutsAndGetsTakeManySlots) {
  each_rank([](const Member& me) {
    const GpuStream stream;
    for (const size_t bytes : {size_t{65537}, kLong}) {
      put_and_get(me, bytes, stream.handle(), stream);
      put_and_get(me, bytes, nullptr, stream);
    }
  });
}

/// Of more pieces than may be ahead of the stream.
TEST(GpuFarWindowsLong, APutThatIsLongerThanWhatMayBeAhead) {
  each_rank([](const Member& me) {
    const GpuStream stream;
    put_and_get(me, (40 << 20) + 1, stream.handle(), stream);
  });
}

/// What a rank has put and flushed, others see who hear of it: rank 0 puts to rank 1, and tells the last rank.
TEST(GpuFarWindows, AFlushOrdersWhatOthersAreTold) {
  each_rank([](const Member& me) {
    constexpr int kRounds = 40;
    const int last = me.ranks - 1;
    const GpuStream stream;
    const Memory source(me, 8 * kRounds), got(me, 8 * kRounds);
    for (int i = 0; i < kRounds; ++i) source.set(8 * i, bytes_of(7, i, 8));
    const Part part(me, 8);
    for (int i = 0; i < kRounds; ++i) {
      if (me.rank == 0) {
        OK(tuttiPut(source.at(8 * i), 8, 1, 0, part.window, stream.handle()));
        OK(tuttiFlush(i % 2 == 0 ? 1 : TUTTI_ALL_PEERS, part.window, stream.handle()));
        OK(tuttiSignal(last, 0, part.window, stream.handle()));
        OK(tuttiWaitSignal(last, 1, 1, part.window, stream.handle()));
      }
      if (me.rank == last) {
        OK(tuttiWaitSignal(0, 0, 1, part.window, stream.handle()));
        OK(tuttiGet(got.at(8 * i), 8, 1, 0, part.window, stream.handle()));
        OK(tuttiSignal(0, 1, part.window, stream.handle()));
      }
    }
    stream.synchronize();
    for (int i = 0; me.rank == last && i < kRounds; ++i) EXPECT_TRUE(got.get(8 * i, 8) == bytes_of(7, i, 8)) << i;
    me.meet();
  });
}

/// Message passing: a reader that has seen a flag reads what was put before it, also into another window.
TEST(GpuFarWindows, ASignalFollowsThePutsOfAllWindows) {
  each_rank([](const Member& me) {
    constexpr int kRounds = 100;
    const GpuStream stream;
    const Memory source(me, 4 * kRounds), got(me, 4 * kRounds);
    for (int i = 0; i < kRounds; ++i) source.set(4 * i, bytes_of(me.rank, i, 4));
    const Part data(me, 4 * kRounds), flags(me, 8);
    for (int i = 0; i < kRounds; ++i) {
      OK(tuttiPut(source.at(4 * i), 4, me.next(), 4 * i, data.window, stream.handle()));
      OK(tuttiSignal(me.next(), i % 8, flags.window, stream.handle()));
      OK(tuttiWaitSignal(me.previous(), i % 8, 1, flags.window, stream.handle()));
      CUDA_OK(cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(got.at(4 * i)),
                                reinterpret_cast<CUdeviceptr>(data.memory.at(4 * i)), 4, stream.get()));
    }
    stream.synchronize();
    for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(got.get(4 * i, 4) == bytes_of(me.previous(), i, 4)) << i;
    me.meet();
  });
}

/// What is under way when a window is deregistered is in place afterwards, and nothing comes later.
TEST(GpuFarWindows, ADeregistrationWaitsForPutsUnderWay) {
  each_rank([](const Member& me) {
    const Memory source(me, kLong), memory(me, kLong);
    source.set(0, bytes_of(me.rank, 3, kLong));
    const GpuStream stream;
    me.meet();
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), kLong, &window));
    OK(tuttiPut(source.at(), kLong, me.next(), 0, window, stream.handle()));
    OK(tuttiWindowDeregister(window));
    EXPECT_TRUE(memory.all() == bytes_of(me.previous(), 3, kLong));
    memory.set(0, Bytes(kLong, 1));
    me.meet();
    EXPECT_TRUE(memory.all() == Bytes(kLong, 1));
    me.meet();
  });
}

/// Signals that a rank has sent before it leaves are not lost.
TEST(GpuFarWindows, WhatARankHasSentBeforeItLeavesArrives) {
  each_rank([](const Member& me) {
    const Memory source(me, kLong), memory(me, kLong);
    source.set(0, bytes_of(me.rank, 4, kLong));
    const GpuStream stream;
    me.meet();
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), kLong, &window));
    if (me.rank != 0) {
      OK(tuttiWaitSignal(0, 0, 1, window, stream.handle()));
      stream.synchronize();
      EXPECT_TRUE(memory.all() == bytes_of(0, 4, kLong));
      return;
    }
    for (int peer = 1; peer < me.ranks; ++peer) {
      OK(tuttiPutSignal(source.at(), kLong, peer, 0, 0, window, stream.handle()));
    }
  });
}

/// The processes of all ranks.
std::vector<int> processes(const Member& me) {
  const int mine = getpid();
  std::vector<int> all(static_cast<size_t>(me.ranks));
  OK(tuttiAllGather(&mine, all.data(), 1, tuttiInt32, me.comm, nullptr));
  return all;
}

void say_that_it_goes_on(const std::string& text) {
  std::printf("%s: %s\n", testing::Test::HasFailure() ? "wrong" : "rank 0 goes on", text.c_str());
  std::fflush(stdout);
}

/// Rank 0 with the communicator of two processes, while `other` does something else.
void with_rank_1(double timeout, const std::function<void(const Member&)>& first,
                 const std::function<void(const Member&)>& other) {
  if (!is_process()) GTEST_SKIP() << "it takes processes";
  Member me{.ranks = 2, .device = std::atoi(std::getenv("TUTTI_RANK")) % count_gpus()};
  use_gpu(me.device);
  if (timeout > 0) setenv("TUTTI_TIMEOUT", std::to_string(timeout).c_str(), 1);
  OK(tuttiCommInitEnv(&me.comm));
  OK(tuttiCommUserRank(me.comm, &me.rank));
  me.rank == 0 ? first(me) : other(me);
}

TEST(GpuFarWindowDeath, EndsPutsThatAreUnderWay) {
  const auto attempt = [](const Member& me, bool dies) {
    const Memory source(me, kLong), memory(me, kLong);
    const GpuStream stream;
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), kLong, &window));
    me.meet();
    if (dies) {
      OK(tuttiWaitSignal(0, 0, 1, window, nullptr));  // the rest follows
      raise(SIGKILL);
    }
    OK(tuttiSignal(1, 0, window, stream.handle()));
    for (int i = 0; i < 3; ++i) {
      if (tuttiPut(source.at(), kLong, 1, 0, window, stream.handle()) != tuttiSuccess) break;  // it has failed already
    }
    tuttiFlush(1, window, stream.handle());
    stream.synchronize();
    const std::string text = failure_of(me.comm, tuttiPeerFailed);
    expect_contains(text, "rank 1 (process ");
    EXPECT_EQ(tuttiWindowDeregister(window), tuttiPeerFailed);
    say_that_it_goes_on(text);
    tuttiCommDestroy(me.comm);
  };
  with_rank_1(
      0, [&](const Member& me) { attempt(me, false); }, [&](const Member& me) { attempt(me, true); });
}

TEST(GpuFarWindowDeath, APartOfARankThatHasLeftIsNotWritten) {
  const auto attempt = [](const Member& me, bool leaves) {
    const Memory memory(me, 64);
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
    if (leaves) OK(tuttiSignal(0, 3, window, nullptr));
    tuttiResult_t result = tuttiSuccess;
    while (!leaves && (result = tuttiPut(memory.at(), 8, 1, 0, window, nullptr)) == tuttiSuccess)
      std::this_thread::yield();
    if (!leaves) {
      const std::string text = tuttiGetLastError();
      EXPECT_EQ(result, tuttiInvalidUsage);
      expect_contains(text, "rank 1 has left the communicator");
      OK(tuttiWaitSignal(1, 3, 1, window, nullptr));  // it has sent this one before
      say_that_it_goes_on(text);
    }
    tuttiCommDestroy(me.comm);
  };
  with_rank_1(
      0, [&](const Member& me) { attempt(me, false); }, [&](const Member& me) { attempt(me, true); });
}

/// A get that begins when the peer has left has nothing to bring. (The peer waits for others to leave, as long as the
/// time-out permits.)
TEST(GpuFarWindowDeath, AGetFromARankThatHasLeftIsAFailure) {
  const auto attempt = [](const Member& me, bool leaves) {
    const Memory memory(me, 64);
    const GpuStream stream;
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
    OK(tuttiGet(memory.at(), 9, 1 - me.rank, 5, window, nullptr));  // it opens the stream between the two
    static int other;
    other = processes(me)[1];
    if (leaves) {
      OK(tuttiWaitSignal(0, 0, 1, window, nullptr));
      tuttiCommDestroy(me.comm);
      return;
    }
    OK(tuttiSignal(1, 0, window, nullptr));
    const auto until_it_has_ended = [](void*) {
      while (kill(other, 0) == 0) std::this_thread::yield();
    };
    CUDA_OK(cuLaunchHostFunc(stream.get(), until_it_has_ended, nullptr));
    if (tuttiGet(memory.at(), 9, 1, 5, window, stream.handle()) == tuttiSuccess) stream.synchronize();
    const std::string text = failure_of(me.comm, tuttiPeerFailed);
    expect_contains(text, "get(9 bytes, rank 1 at offset 5) on the window of call 1: rank 1 has left the communicator");
    say_that_it_goes_on(text);
    tuttiCommDestroy(me.comm);
  };
  with_rank_1(
      0, [&](const Member& me) { attempt(me, false); }, [&](const Member& me) { attempt(me, true); });
}

/// A process that is stopped answers nothing: the time-out names the call, the rank and the window.
TEST(GpuFarWindowDeath, AnAnswerThatIsLateEndsByTheTimeOut) {
  const auto attempt = [](const Member& me, bool stops) {
    const Memory memory(me, 64), target(me, 64);
    const GpuStream stream;
    tuttiWindow_t window = nullptr;
    OK(tuttiWindowRegister(me.comm, memory.at(), 64, &window));
    OK(tuttiGet(target.at(), 9, 1 - me.rank, 5, window, nullptr));  // it opens the stream between the two
    const std::vector<int> all = processes(me);
    if (stops) raise(SIGSTOP);  // rank 0 ends it
    const auto stopped = [&] {
      std::ifstream stat("/proc/" + std::to_string(all[1]) + "/stat");
      std::string text;
      std::getline(stat, text);
      return text.find(") T ") != std::string::npos;
    };
    while (!stopped()) std::this_thread::yield();
    OK(tuttiGet(target.at(), 9, 1, 5, window, stream.handle()));
    stream.synchronize();
    const std::string text = failure_of(me.comm, tuttiTimeout);
    expect_contains(text, "for an answer of rank 1 in get(9 bytes, from rank 1) on the window of call ");
    say_that_it_goes_on(text);
    kill(all[1], SIGKILL);
    tuttiCommDestroy(me.comm);
  };
  with_rank_1(
      0.5, [&](const Member& me) { attempt(me, false); }, [&](const Member& me) { attempt(me, true); });
}

}  // namespace
}  // namespace tutti::test
