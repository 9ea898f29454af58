// Calls on device memory between two processes that are hosts to each other (TUTTI_FORCE_REMOTE). Each test runs alone,
// as a job of two ranks: `tutti run -n 2 -- tutti_gpu_far_tests --gtest_filter=Far.…`.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "calls/gpu_program.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// One of the two ranks.
class Far : public testing::Test {
 protected:
  Far() {
    use_gpu(0);
    rank_ = std::atoi(std::getenv("TUTTI_RANK"));
  }
  ~Far() override {
    if (comm_ == nullptr) return;
    EXPECT_EQ(tuttiCommDestroy(comm_), at_the_end_) << tuttiGetLastError();
  }
  void join() { ASSERT_EQ(tuttiCommInitEnv(&comm_), tuttiSuccess) << tuttiGetLastError(); }
  tuttiResult_t all_reduce(const GpuBuffer& in, const GpuBuffer& out, size_t count, const GpuStream& stream) const {
    return tuttiAllReduce(in.get(), out.get(), count, tuttiFloat32, tuttiSum, comm_, stream.handle());
  }
  /// The text of the failure, which must have this code.
  std::string failure(tuttiResult_t expected) {
    tuttiResult_t result = tuttiSuccess;
    while (tuttiCommGetAsyncError(comm_, &result) == tuttiSuccess && result == tuttiSuccess) std::this_thread::yield();
    EXPECT_EQ(result, expected);
    at_the_end_ = expected;
    return tuttiCommGetErrorText(comm_);
  }

  int rank_ = 0;
  tuttiComm_t comm_ = nullptr;
  tuttiResult_t at_the_end_ = tuttiSuccess;
};

TEST_F(Far, ManyCallsOfAllSizesAreRight) {
  join();
  constexpr size_t kMax = 300000;
  const GpuBuffer in(kMax * 4), out(kMax * 4);
  const GpuStream stream, other;
  for (int call = 0; call < 60; ++call) {
    const size_t count = call % 3 == 0 ? static_cast<size_t>(call % 12 + 1) : kMax >> (call % 7);
    in.set(std::vector<float>(count, static_cast<float>(call + rank_)));
    const GpuStream& used = call % 5 == 0 ? other : stream;
    ASSERT_EQ(all_reduce(in, out, count, used), tuttiSuccess) << tuttiGetLastError();
    used.synchronize();
    ASSERT_EQ(out.floats(count), std::vector<float>(count, static_cast<float>(2 * call + 1))) << call;
  }
}

TEST_F(Far, CallsAreEnqueuedWithoutWaiting) {
  join();
  constexpr size_t kCount = 50000;
  constexpr int kCalls = 30;
  std::vector<std::unique_ptr<GpuBuffer>> ins, outs;
  for (int call = 0; call < kCalls; ++call) {
    ins.push_back(std::make_unique<GpuBuffer>(kCount * 4));
    outs.push_back(std::make_unique<GpuBuffer>(kCount * 4));
    ins.back()->set(std::vector<float>(kCount, static_cast<float>(call)));
  }
  const GpuStream stream;
  for (int call = 0; call < kCalls; ++call) {
    const auto i = static_cast<size_t>(call);
    ASSERT_EQ(all_reduce(*ins[i], *outs[i], call % 2 == 0 ? kCount : 10, stream), tuttiSuccess);
  }
  stream.synchronize();
  for (int call = 0; call < kCalls; ++call) {
    const size_t count = call % 2 == 0 ? kCount : 10;
    ASSERT_EQ(outs[static_cast<size_t>(call)]->floats(count), std::vector<float>(count, static_cast<float>(2 * call)));
  }
}

TEST_F(Far, OneRankReplaysWhileAnotherCalls) {
  join();
  constexpr size_t kCount = 20000;
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  in.set(std::vector<float>(kCount, rank_ == 0 ? 1.0F : 2.0F));
  const GpuStream stream;
  const auto call = [&](size_t count) { EXPECT_EQ(all_reduce(in, out, count, stream), tuttiSuccess); };
  constexpr int kTurns = 20;
  if (rank_ == 0) {
    const Graph graph(stream, [&] { call(4), call(kCount); });
    for (int i = 0; i < kTurns; ++i) graph.launch(stream);
    stream.synchronize();
  } else {
    for (int i = 0; i < kTurns; ++i) call(4), call(kCount);
    stream.synchronize();
  }
  EXPECT_EQ(out.floats(kCount), std::vector<float>(kCount, 3.0F));
}

TEST_F(Far, AGraphOutlivesItsCommunicator) {
  join();
  const GpuBuffer in(4000), out(4000);
  const GpuStream stream;
  const Graph graph(stream, [&] { EXPECT_EQ(all_reduce(in, out, 1000, stream), tuttiSuccess); });
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess);
  comm_ = nullptr;
  graph.launch(stream);
  stream.synchronize();
}

/// Device buffers take the proxy, those of the host the communicator's own links.
TEST_F(Far, CallsOnHostMemoryGoOnBeside) {
  join();
  constexpr size_t kCount = 100000;
  const GpuBuffer in(kCount * 4), out(kCount * 4);
  in.set(std::vector<float>(kCount, 1.0F));
  const GpuStream stream;
  std::vector<float> here(kCount, 2.0F);
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_EQ(all_reduce(in, out, kCount, stream), tuttiSuccess);
    std::vector<float> sum(kCount);
    EXPECT_EQ(tuttiAllReduce(here.data(), sum.data(), kCount, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiSuccess);
    EXPECT_EQ(sum, std::vector<float>(kCount, 4.0F));
  }
  stream.synchronize();
  EXPECT_EQ(out.floats(kCount), std::vector<float>(kCount, 2.0F));
}

void expect_mismatch(const std::string& text, const char* one, const char* other) {
  expect_contains(text, one);
  expect_contains(text, other);
}

TEST_F(Far, AMismatchOfShortCallsNamesBoth) {
  join();
  const GpuBuffer in(4096), out(4096);
  const GpuStream stream;
  EXPECT_EQ(all_reduce(in, out, rank_ == 0 ? 8 : 16, stream), tuttiSuccess);
  stream.synchronize();
  expect_mismatch(failure(tuttiMismatch), "all_reduce(count=8, f32, sum)", "all_reduce(count=16, f32, sum)");
}

TEST_F(Far, AMismatchOfLongCallsNamesBoth) {
  join();
  const GpuBuffer in(4 << 20), out(4 << 20);
  const GpuStream stream;
  EXPECT_EQ(all_reduce(in, out, rank_ == 0 ? 1 << 20 : 1000, stream), tuttiSuccess);
  stream.synchronize();
  expect_mismatch(failure(tuttiMismatch), "all_reduce(count=1048576, f32, sum)", "all_reduce(count=1000, f32, sum)");
}

TEST_F(Far, AbortEndsAWaitingKernel) {
  join();
  const GpuBuffer in(4 << 20), out(4 << 20);
  const GpuStream stream;
  if (rank_ == 0) {
    EXPECT_EQ(all_reduce(in, out, 1 << 20, stream), tuttiSuccess);  // rank 1 never comes
    const auto begin = Clock::now();
    std::thread([&] { EXPECT_EQ(tuttiCommAbort(comm_), tuttiSuccess); }).join();
    stream.synchronize();
    EXPECT_LT(seconds_since(begin), kStreamsEndWithin);
  }
  failure(tuttiAborted);
}

TEST_F(Far, AWaitThatIsTooLongNamesThePeerAndTheStep) {
  setenv("TUTTI_TIMEOUT", "2", 1);
  join();
  const GpuBuffer in(4096), out(4096);
  const GpuStream stream;
  if (rank_ == 0) {
    EXPECT_EQ(all_reduce(in, out, 8, stream), tuttiSuccess);
    stream.synchronize();
  }
  const std::string text = failure(tuttiTimeout);
  expect_contains(text, "rank 0 waited");
  expect_contains(text, "for rank 1 (a message) at lane 0, step");
}

/// Rank 0 passes; rank 1 is killed, so the job has an error.
TEST_F(Far, ADeadPeerIsNamedAndTheStepThatWaitedForIt) {
  join();
  const GpuBuffer in(4 << 20), out(4 << 20);
  const GpuStream stream;
  char word = 0;
  if (rank_ == 1) {
    EXPECT_EQ(tuttiRecv(&word, 1, tuttiUint8, 0, comm_, nullptr), tuttiSuccess);
    std::raise(SIGKILL);
  }
  EXPECT_EQ(all_reduce(in, out, 1 << 20, stream), tuttiSuccess);
  // Until its kernel waits, which nothing tells a program.
  std::this_thread::sleep_for(std::chrono::duration<double>(0.3 * kStreamsEndWithin));
  EXPECT_EQ(tuttiSend(&word, 1, tuttiUint8, 1, comm_, nullptr), tuttiSuccess);
  const auto begin = Clock::now();
  stream.synchronize();
  const double seconds = seconds_since(begin);
  EXPECT_LT(seconds, kStreamsEndWithin);
  const std::string text = failure(tuttiPeerFailed);
  std::printf("ended after %.3f s: %s\n", seconds, text.c_str());
  expect_contains(text, "rank 1 (process");
  if (!kBlocksReport) return;
  expect_contains(text, "rank 0: all_reduce(count=1048576, f32, sum), call 1 (");
  expect_contains(text, "; the call waited for rank 1 (a message) at ");
  expect_contains(text, "lane 0, step ");
}

TEST_F(Far, ARankThatLeavesEarlyIsAMismatch) {
  join();
  at_the_end_ = tuttiMismatch;
  if (rank_ == 1) return;
  const GpuBuffer in(4096), out(4096);
  const GpuStream stream;
  EXPECT_EQ(all_reduce(in, out, 8, stream), tuttiSuccess);
  stream.synchronize();
  expect_contains(failure(tuttiMismatch), "rank 1 called destroy()");
}

TEST_F(Far, AShortMessageArrivesAfterItsSenderHasLeft) {
  join();
  const GpuBuffer data(4000);
  const GpuStream stream;
  if (rank_ == 0) data.set(std::vector<float>(1000, 5.0F));
  EXPECT_EQ(tuttiBroadcast(data.get(), data.get(), 1000, tuttiFloat32, 0, comm_, stream.handle()), tuttiSuccess);
  stream.synchronize();
  EXPECT_EQ(data.floats(1000), std::vector<float>(1000, 5.0F));
}

/// Leaving waits for the others only with the process's last communicator.
TEST_F(Far, AShortMessageArrivesAfterItsSenderHasLeftOneOfTwoCommunicators) {
  join();
  tuttiComm_t second = nullptr;
  ASSERT_EQ(tuttiCommSplit(comm_, 0, rank_, &second), tuttiSuccess) << tuttiGetLastError();
  const GpuBuffer data(4000);
  const GpuStream stream;
  if (rank_ == 0) data.set(std::vector<float>(1000, 5.0F));
  EXPECT_EQ(tuttiBroadcast(data.get(), data.get(), 1000, tuttiFloat32, 0, second, stream.handle()), tuttiSuccess);
  stream.synchronize();
  EXPECT_EQ(tuttiCommDestroy(second), tuttiSuccess) << tuttiGetLastError();
  EXPECT_EQ(data.floats(1000), std::vector<float>(1000, 5.0F));
}

/// What a rank has sent arrives, though its process ends at once.
TEST_F(Far, WhatWasSentArrivesAfterTheSenderHasLeft) {
  join();
  constexpr size_t kCount = 1 << 20;
  const GpuBuffer data(kCount * 4);
  const GpuStream stream;
  if (rank_ == 0) data.set(std::vector<float>(kCount, 5.0F));
  EXPECT_EQ(tuttiBroadcast(data.get(), data.get(), kCount, tuttiFloat32, 0, comm_, stream.handle()), tuttiSuccess);
  stream.synchronize();
  EXPECT_EQ(data.floats(kCount), std::vector<float>(kCount, 5.0F));
}

}  // namespace
}  // namespace tutti
