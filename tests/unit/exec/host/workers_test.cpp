// Threads that run the parts of wide calls.
#include "exec/host/workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tutti::exec {
namespace {

void await(const Workers& workers) {
  while (!workers.done()) std::this_thread::yield();
}

TEST(Workers, RunEachJobOnceAndWhatTheyWroteIsVisible) {
  Workers workers;
  std::vector<int> runs(8);  // not atomic: ThreadSanitizer sees whether done() orders it
  for (uint32_t call = 1; call <= 200; ++call) {
    const uint32_t jobs = 1 + call % 8;  // fewer than threads, and more than before
    for (int& run : runs) run = 0;
    workers.start(jobs, [&](uint32_t index) { ++runs[index]; });
    await(workers);
    for (uint32_t i = 0; i < runs.size(); ++i) ASSERT_EQ(runs[i], i < jobs ? 1 : 0) << "call " << call;
  }
}

TEST(Workers, AreNotDoneWhileAJobRuns) {
  Workers workers;
  std::atomic<bool> go = false;
  workers.start(2, [&](uint32_t index) {
    while (index == 1 && !go) std::this_thread::yield();
  });
  EXPECT_FALSE(workers.done());
  go = true;
  await(workers);
}

TEST(Workers, WithNothingToDoAreDone) {
  Workers workers;
  EXPECT_TRUE(workers.done());
  workers.start(0, [](uint32_t) { FAIL(); });
  EXPECT_TRUE(workers.done());
}

}  // namespace
}  // namespace tutti::exec
