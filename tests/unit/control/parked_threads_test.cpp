// Which threads of this process are blocked until another thread wakes them.
#include "control/parked_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"

namespace tutti::control {
namespace {

std::vector<pid_t> all_threads() {
  std::thread([] {}).join();  // ThreadSanitizer starts a thread of its own with the program's first
  std::vector<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.push_back(std::stoi(entry.path().filename()));
  }
  return threads;
}

class Parked : public testing::Test {
 protected:
  /// Whether all threads that the test started are parked. They may not be parked yet.
  bool become_parked(bool wanted) const {
    const Deadline deadline = Deadline::in(10);
    while (all_parked_but(before_) != wanted && !deadline.passed()) std::this_thread::yield();
    return all_parked_but(before_);
  }

  const std::vector<pid_t> before_ = all_threads();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  void finish(std::thread& thread) {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread.join();
  }
};

TEST_F(Parked, AThreadOnAConditionVariableIsParked) {
  std::thread waits([&] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_; });
  });
  EXPECT_TRUE(become_parked(true));
  finish(waits);
}

TEST_F(Parked, AThreadWithATimeLimitIsNotParked) {
  std::thread waits([&] {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return over_; });
  });
  EXPECT_FALSE(become_parked(false));
  finish(waits);
}

TEST_F(Parked, ARunningThreadIsNotParked) {
  std::atomic<bool> over{false};
  std::thread runs([&] {
    while (!over) std::this_thread::yield();
  });
  EXPECT_FALSE(become_parked(false));
  over = true;
  runs.join();
}

TEST_F(Parked, AThreadThatRanBetweenTwoLooksIsSeen) {
  int turns = 0, wanted = 1;  // under the mutex
  std::thread turning([&] {
    std::unique_lock lock(mutex_);
    while (!over_) {
      turns = wanted;
      changed_.notify_all();
      changed_.wait(lock, [&] { return over_ || turns != wanted; });
    }
  });
  EXPECT_TRUE(become_parked(true));
  const auto first = read_threads(before_), second = read_threads(before_);
  EXPECT_TRUE(first);
  EXPECT_EQ(first, second) << "it did not run";
  {
    std::unique_lock lock(mutex_);
    ++wanted;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turns == wanted; });
  }
  EXPECT_TRUE(become_parked(true)) << "it sleeps as before";
  EXPECT_NE(read_threads(before_), first);
  finish(turning);
}

TEST_F(Parked, AThreadInAJoinIsParked) {
  std::thread joins([&] {
    std::thread waits([&] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return over_; });
    });
    waits.join();
  });
  EXPECT_TRUE(become_parked(true));
  finish(joins);
}

}  // namespace
}  // namespace tutti::control
