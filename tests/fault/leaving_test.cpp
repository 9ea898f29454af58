// How ranks end. Those that return from main without destroy cause no error on other ranks. A result that has arrived
// is a success, also if its sender has died since. A rank that waits in destroy for one that has died gets an error
// that names it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

constexpr int kRanks = 4;

/// Of each rank the results of all lines of its script, or fewer if its process ended.
std::vector<Story> results_of(Job& job) {
  auto results = job.finish();
  EXPECT_EQ(job.problem(), "");
  return results;
}

void expect_success(const Story& story, size_t lines) {
  ASSERT_EQ(story.size(), lines + 1);  // and that it has joined
  for (const LineResult& result : story) EXPECT_EQ(result.code, tuttiSuccess) << result.text;
}

// ---- returning from main

#ifdef TUTTI_UCX_FOLDER
const auto kTransports = testing::Values("shm", "tcp", "local", "ucx");
const std::string kEnvironment = "TUTTI_TIMEOUT=30 TUTTI_MODULE_PATH=" TUTTI_UCX_FOLDER;
#else
const auto kTransports = testing::Values("shm", "tcp", "local");
const std::string kEnvironment = "TUTTI_TIMEOUT=30";
#endif

using Returning = std::tuple<std::string, std::string>;  // transport, the last call

class ReturnsFromMain : public testing::TestWithParam<Returning> {};

TEST_P(ReturnsFromMain, WithoutDestroyAndHarmsNoOther) {
  const auto& [transport, call] = GetParam();
  constexpr int kRuns = 8;
  for (int run = 0; run < kRuns && !HasFailure(); ++run) {
    Job job({transport, kRanks, kEnvironment}, [&, &line = call](int) { return line; });
    const auto results = results_of(job);
    for (const Story& story : results) expect_success(story, 1);
  }
}

/// The call's result does not need every rank: those that are done return while others have not begun.
TEST_P(ReturnsFromMain, BeforeALateRankMakesItsCall) {
  const auto& [transport, call] = GetParam();
  const int late = kRanks - 1;
  Job job({transport, kRanks, kEnvironment},
          [&, &line = call](int rank) { return rank == late ? "wait\n" + line : line; });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others have made their call and returned
  job.go(late);
  const auto results = results_of(job);
  for (int rank = 0; rank < kRanks; ++rank) expect_success(results[static_cast<size_t>(rank)], rank == late ? 2 : 1);
}

INSTANTIATE_TEST_SUITE_P(
    Fault, ReturnsFromMain,
    testing::Combine(kTransports, testing::Values("broadcast 1000 f32 0", "broadcast 1 f32 0",
                                                  "broadcast 3000000 f32 0", "all_reduce 1000 f32 sum",
                                                  "all_reduce 3000000 f32 sum", "scatter 1000 f32 0", "barrier")));

/// A rank that has what it needs makes no progress, and no other waits for that.
TEST_P(ReturnsFromMain, WhenOthersAreAwayForLong) {
  const auto& [transport, call] = GetParam();
  constexpr int kAway = kRanks - 1;
  Job job({transport, kRanks, kEnvironment},
          [&, &line = call](int rank) { return rank == kAway ? line + "\nwait" : line; });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);  // before kAway goes on
  job.go(kAway);
  const auto results = results_of(job);
  for (int rank = 0; rank < kRanks; ++rank) expect_success(results[static_cast<size_t>(rank)], rank == kAway ? 2 : 1);
}

/// Finalize goes on in the background as main returns.
TEST(ReturnsFromMainEarly, WhileItFinalizesAndHarmsNoOther) {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const int late : {0, kRanks - 1}) {
      Job job({transport, kRanks, "TUTTI_TIMEOUT=30"}, [&](int rank) {
        return std::string("nonblocking\n") + (rank == late ? "wait\n" : "") + "broadcast 1000 f32 1\nfinalize";
      });
      for (int rank = 0; rank < kRanks; ++rank) job.await(rank, rank == late ? -1 : 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      job.go(late);
      const auto results = results_of(job);
      for (const Story& story : results) {
        ASSERT_GE(story.size(), 3U);
        for (const LineResult& result : story)
          EXPECT_TRUE(result.code == tuttiSuccess || result.code == tuttiInProgress) << result.text;
      }
    }
  }
}

/// What finalize found in the background is destroy's result, if nothing has told it.
TEST(DestroyAfterFinalize, TellsWhatFinalizeFound) {
  Job job({"shm", kRanks, "TUTTI_TIMEOUT=30"},
          [](int rank) { return fmt::format("nonblocking\nbroadcast 10 f32 {}\nfinalize\ndestroy", rank); });
  for (const Story& story : results_of(job)) {
    ASSERT_EQ(story.size(), 4U);
    if (story[1].code == tuttiMismatch) continue;  // another one had left so early that the call could tell it
    EXPECT_EQ(story[2].code, tuttiInProgress) << story[2].text;
    EXPECT_EQ(story[3].code, tuttiMismatch) << story[3].text;
  }
}

/// Sets an error's text when the main thread's own variables are gone, and a longer one than before.
struct FailsLate {
  bool armed = false;
  ~FailsLate() {
    const char* value = nullptr;
    if (armed) tuttiGetVariable(std::string(200, 'X').c_str(), &value);
  }
};
FailsLate fails_late;

int end_with_a_late_error(const std::string& /*unused*/, test::Line& /*unused*/) {
  fails_late.armed = true;
  int ranks = 0;
  return tuttiCommCount(nullptr, &ranks) == tuttiInvalidArgument ? 0 : 1;
}
const test::Role ends_with_a_late_error("ends with a late error", end_with_a_late_error);

TEST(ErrorText, OutlivesTheMainThreadsVariables) {
  test::Child child("ends with a late error", "");
  EXPECT_EQ(child.wait(), 0);
}

/// The ranks' roots differ, which is known when the late rank ends. The log of each rank has it, whether its own end
/// finds it or it came before.
TEST(FailureAfterTheLastCall, IsLoggedByEachRankThatEnds) {
  for (const std::string transport : {"shm", "tcp"}) {
    std::string folder = testing::TempDir() + "/tutti-ends-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const int late = kRanks - 1;
    Job job({transport, kRanks, fmt::format("TUTTI_TIMEOUT=30 TUTTI_LOG_FILE={}/%p", folder)},
            [&](int rank) { return fmt::format("broadcast 10 f32 {}", rank) + (rank == late ? "\nwait" : ""); });
    for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the others are ending
    job.go(late);
    const auto results = results_of(job);
    const auto unheard =
        std::count_if(results.begin(), results.end(), [](const Story& story) { return story[1].code == tuttiSuccess; });
    long logs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      EXPECT_NE(text.str().find("called broadcast(count=10, f32, root="), std::string::npos) << text.str();
      ++logs;
    }
    EXPECT_EQ(logs, unheard) << "a log for each process whose call has not returned it";
    std::filesystem::remove_all(folder);
  }
}

/// A thread, or a process, that ends with a group open has lost the group's calls.
/// After a barrier: a rank that fails its communicator at once may be ahead of others that still join.
TEST(EndsWithAGroupOpen, FailsTheCommunicatorOnAllRanks) {
  constexpr int kForgetful = 1;
  for (const std::string transport : {"shm", "local"}) {
    Job job({transport, kRanks, "TUTTI_TIMEOUT=30"},
            [&](int rank) { return rank == kForgetful ? "barrier\nstart\nbarrier" : "barrier\nbarrier\ndestroy"; });
    const auto results = results_of(job);
    expect_success(results[kForgetful], 3);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kForgetful) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      const Story& story = results[static_cast<size_t>(rank)];
      ASSERT_EQ(story.size(), 4U);
      EXPECT_EQ(story[2].code, tuttiInvalidUsage) << story[2].text;
      EXPECT_NE(story[2].text.find("rank 1: a thread ends with a group open"), std::string::npos) << story[2].text;
    }
  }
}

// ---- killed when its part is done

class KilledWhenDone : public testing::TestWithParam<std::string> {};

TEST_P(KilledWhenDone, LeavesItsResultToTheOthers) {
  const std::string& transport = GetParam();
  constexpr int kRoot = 0;
  // Each rank passes the result on to the next, some time after the root has died.
  Job job({transport, kRanks, "TUTTI_TIMEOUT=30 TUTTI_ALGO=broadcast:chain TUTTI_FAULT=latency=60ms"}, [&](int rank) {
    return rank == kRoot ? "barrier\nwait\nbroadcast 1000 f32 0\nkill"
                         : "barrier\nbroadcast 1000 f32 0\nbarrier\ndestroy";
  });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others are in the broadcast
  job.go(kRoot);
  const auto results = results_of(job);
  for (int rank = 1; rank < kRanks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = results[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), 5U);
    EXPECT_EQ(story[2].code, tuttiSuccess) << story[2].text;
    for (const LineResult& later : {story[3], story[4]}) {
      EXPECT_EQ(later.code, tuttiPeerFailed) << later.text;
      EXPECT_NE(later.text.find("rank 0 "), std::string::npos) << later.text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, KilledWhenDone, testing::Values("shm", "tcp"));

// ---- gone while the others wait in destroy

using Waiting = std::tuple<std::string, int, int>;  // transport, the rank that is gone, the signal

class GoneDuringDestroy : public testing::TestWithParam<Waiting> {};

TEST_P(GoneDuringDestroy, IsNamedToAllThatWait) {
  const auto& [transport, victim, signal] = GetParam();
  Job job({transport, kRanks, "TUTTI_TIMEOUT=30 TUTTI_HEARTBEAT_TIMEOUT=1"},
          [victim = victim](int rank) { return rank == victim ? "barrier\nwait" : "barrier\ndestroy"; });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the others are in destroy
  const double gone = now();
  job.child_of(victim).signal(signal);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != victim) job.await(rank, 1);
  }
  job.child_of(victim).signal(SIGKILL);
  const auto results = results_of(job);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = results[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), 3U);
    EXPECT_EQ(story[2].code, tuttiPeerFailed) << story[2].text;
    EXPECT_NE(story[2].text.find(fmt::format("rank {} (", victim)), std::string::npos) << story[2].text;
    EXPECT_NE(story[2].text.find("destroy(): "), std::string::npos) << story[2].text;
    EXPECT_LT(story[2].at - gone, signal == SIGSTOP ? 3 : 1.5);
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, GoneDuringDestroy,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(0, 2),
                                          testing::Values(SIGKILL, SIGSTOP)));

}  // namespace
}  // namespace tutti::fault
