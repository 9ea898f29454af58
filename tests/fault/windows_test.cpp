// Windows whose other ranks die, stop, wait for each other or make other calls: each wait ends, with an error that
// names rank and call, and no memory is written after it was deregistered.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

/// A job of two ranks on one transport, "local", "shm", or "hosts": as if each rank were on a host of its own.
std::vector<Story> run(const std::string& where, const std::string& first, const std::string& second,
                       const std::string& environment = "") {
  const bool hosts = where == "hosts";
  Job job({hosts ? "tcp" : where, 2, environment + (hosts ? " TUTTI_FORCE_REMOTE=1" : "")},
          [&](int rank) { return rank == 0 ? first : second; });
  auto stories = job.finish(60);
  EXPECT_EQ(job.problem(), "");
  return stories;
}

class WindowOf : public testing::TestWithParam<std::string> {};
class WindowOfProcesses : public testing::TestWithParam<std::string> {};

TEST_P(WindowOfProcesses, ARankThatDiesEndsAWaitForItsSignal) {
  const auto stories =
      run(GetParam(), "window 8\nbarrier\nwait_signal 1\nflush 1\nderegister", "window 8\nbarrier\nkill");
  ASSERT_EQ(stories[0].size(), 6u);
  EXPECT_EQ(stories[0][3].code, tuttiPeerFailed);
  const std::string& text = stories[0][3].text;  // in the wait, or already before it
  EXPECT_TRUE(text.starts_with("rank 0: ") && text.find("rank 1 (process ") != std::string::npos) << text;
  EXPECT_LT(stories[0][3].seconds, 5) << "a death is known at once";
  EXPECT_EQ(stories[0][4].code, tuttiPeerFailed) << "later calls fail, too";
  EXPECT_EQ(stories[0][5].code, tuttiPeerFailed);
}

TEST_P(WindowOfProcesses, ASignalIsNotTakenAfterARevocation) {
  const auto stories =
      run(GetParam(), "window 8\nsignal 1\nbarrier\nrevoke", "window 8\nbarrier\nuntil_revoked\nwait_signal 0");
  ASSERT_EQ(stories[1].size(), 5u);
  EXPECT_EQ(stories[1][4].code, tuttiRevoked) << stories[1][4].text;
}

TEST_P(WindowOfProcesses, ARankThatDiesIsNamedByCallsOnItsPart) {
  for (const std::string memory : {"", " mapped"}) {
    for (const std::string call : {"repeat put 524288 1", "repeat get 524288 1"}) {
      SCOPED_TRACE(call + memory);
      Job job({GetParam() == "hosts" ? "tcp" : GetParam(), 2, GetParam() == "hosts" ? "TUTTI_FORCE_REMOTE=1" : ""},
              [&](int rank) {
                return "window 524288" + memory + "\nbarrier\n" + (rank == 0 ? call + memory + "\nderegister" : "wait");
              });
      job.await(0, 1);
      job.await(1, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // some calls are made
      job.child_of(1).signal(SIGKILL);
      const auto stories = job.finish(30);
      ASSERT_EQ(stories[0].size(), 5u) << job.problem();
      EXPECT_EQ(stories[0][3].code, tuttiPeerFailed) << stories[0][3].text;
      const std::string& text = stories[0][3].text;
      EXPECT_TRUE(text.starts_with("rank 0: ") && text.find("rank 1 (process ") != std::string::npos) << text;
      EXPECT_EQ(stories[0][4].code, tuttiPeerFailed) << stories[0][4].text;
      EXPECT_LT(stories[0][4].seconds, 5) << "a death is known at once";
    }
  }
}

TEST_P(WindowOfProcesses, AWriterThatDiesInAPutDoesNotHoldUpADeregistration) {
  Job job({GetParam() == "hosts" ? "tcp" : GetParam(), 2, GetParam() == "hosts" ? "TUTTI_FORCE_REMOTE=1" : ""},
          [](int rank) {
            const std::string window = "window 8388608 mapped\nbarrier\n";
            return window + (rank == 0 ? "wait_signal 1\nderegister" : "repeat put 8388608 0 mapped");
          });
  job.await(0, 1);
  job.await(1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it is in a put
  job.child_of(1).signal(SIGKILL);
  const auto stories = job.finish(30);
  ASSERT_EQ(stories[0].size(), 5u) << job.problem();
  EXPECT_EQ(stories[0][4].code, tuttiPeerFailed) << stories[0][4].text;
  EXPECT_LT(stories[0][4].seconds, 1.5) << "less than a stopped writer is waited for";
}

TEST_P(WindowOf, RanksThatWaitForEachOthersSignalsAreADeadlock) {
  const bool far = GetParam() == "hosts";  // a signal may be on its way: a time-out ends it
  const auto stories =
      run(GetParam(), "window 4096 mapped\nwait_signal 1", "window 4096 mapped\nwait_signal 0", "TUTTI_TIMEOUT=10");
  for (const Story& story : stories) {
    ASSERT_EQ(story.size(), 3u);
    EXPECT_EQ(story[2].code, far ? tuttiTimeout : tuttiMismatch) << story[2].text;
    const bool named = story[2].text.find("wait for each other") != std::string::npos;
    EXPECT_TRUE(far || named) << story[2].text;
    EXPECT_LT(story[2].seconds, far ? 15 : 8);
  }
}

TEST_P(WindowOf, AnotherCallInPlaceOfARegistrationIsAMismatch) {
  const auto stories = run(GetParam(), "window 8", "barrier");
  for (const Story& story : stories) {
    ASSERT_EQ(story.size(), 2u);
    EXPECT_EQ(story[1].code, tuttiMismatch);
    EXPECT_NE(story[1].text.find("window_register()"), std::string::npos) << story[1].text;
    EXPECT_NE(story[1].text.find("barrier()"), std::string::npos) << story[1].text;
  }
}

TEST_P(WindowOf, ARankThatCannotTakePartMakesAllRefuseARegistrationAtOnce) {
  const auto stories = run(GetParam(), "window 8\nbarrier\nwindow 8\nbarrier\nderegister",
                           "window_null 8\nbarrier\nwindow 8\nbarrier\nderegister");
  for (size_t rank = 0; rank < 2; ++rank) {
    const Story& story = stories[rank];
    ASSERT_EQ(story.size(), 6u);
    EXPECT_EQ(story[1].code, tuttiInvalidArgument);
    EXPECT_EQ(story[1].text, "window_register(): rank 1 cannot take part: the buffer is NULL");
    EXPECT_LT(story[1].seconds, 5);
    for (size_t i = 2; i < 6; ++i) EXPECT_EQ(story[i].code, tuttiSuccess) << "nothing is lost: " << story[i].text;
  }
}

TEST_P(WindowOf, ARankThatHasLeftEndsAWaitForItsSignal) {
  for (const std::string memory : {"", " mapped"}) {
    const auto stories = run(GetParam(), "window 4096" + memory + "\nwait_signal 1\nwait_signal 1",
                             "window 4096" + memory + "\nsignal 0\ndestroy");
    ASSERT_EQ(stories[0].size(), 4u);
    EXPECT_EQ(stories[0][2].code, tuttiSuccess) << "what was sent before is not lost: " << stories[0][2].text;
    EXPECT_EQ(stories[0][3].code, tuttiMismatch);
    EXPECT_EQ(stories[0][3].text,
              "rank 0: wait_signal(1 of signal 0, from rank 1): rank 1 has left without a signal that rank 0 waits for "
              "in wait_signal(1 of signal 0, from rank 1)");
    EXPECT_LT(stories[0][3].seconds, 5) << "that is known at once";
  }
}

TEST_P(WindowOf, CallsOnThePartOfARankThatHasLeftAreRefused) {
  for (const std::string memory : {"", " mapped"}) {
    for (const std::string call : {"put 1 1", "flush 1", "signal 1", "put_signal 1 1"}) {
      SCOPED_TRACE(call + memory);
      const auto stories =
          run(GetParam(), "window 4096" + memory + "\nrepeat " + call, "window 4096" + memory + "\ndestroy");
      ASSERT_EQ(stories[0].size(), 3u);
      EXPECT_EQ(stories[0][2].code, tuttiInvalidUsage);
      EXPECT_NE(stories[0][2].text.find("): rank 1 has left the communicator"), std::string::npos)
          << stories[0][2].text;
      EXPECT_LT(stories[0][2].seconds, 5);
    }
  }
}

TEST_P(WindowOf, ADeregistrationOfAFailedCommunicatorEndsAtOnceWithItsError) {
  for (const std::string memory : {"", " mapped"}) {
    for (const std::string call : {"put", "get"}) {
      SCOPED_TRACE(call + memory);
      const auto stories = run(GetParam(), "window 8388608" + memory + "\nbarrier\nabort\nderegister",
                               "window 8388608" + memory + "\nbarrier\nrepeat " + call + " 8388608 0" + memory);
      ASSERT_EQ(stories[0].size(), 5u);
      EXPECT_EQ(stories[0][4].code, tuttiAborted) << stories[0][4].text;
      EXPECT_LT(stories[0][4].seconds, 10) << "a call of another rank ends when its copy does";
      const int code = stories[1].back().code;  // of its part, if that is known before the communicator's end
      EXPECT_TRUE(code == tuttiAborted || code == tuttiInvalidUsage) << stories[1].back().text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, WindowOf, testing::Values("local", "shm", "hosts"));
INSTANTIATE_TEST_SUITE_P(Fault, WindowOfProcesses, testing::Values("shm", "hosts"));

/// Rank 1 is stopped while it makes calls, rank 0 gives up, deregisters and fills its memory, then rank 1 continues.
void stop_and_go_on(const Stage& stage, const std::string& call, const std::string& memory, double moment) {
  Job job(stage, [&](int rank) {
    const std::string window = "window 8388608" + memory + "\n", line = call + " 8388608 0" + memory;
    if (rank == 1) return window + line + "\nbarrier\nrepeat " + line;  // the first call allocates its buffer
    return window + "wait\nbarrier\nwait_signal 1\nderegister\nfill\nwait\nintact";
  });
  job.await(1, 1);  // which takes seconds on an emulated device
  job.go(0);
  job.await(0, 2);
  job.await(1, 2);
  std::this_thread::sleep_for(std::chrono::duration<double>(moment));
  job.child_of(1).signal(SIGSTOP);
  job.await(0, 4);
  job.child_of(1).signal(SIGCONT);
  job.await(1, 3);
  job.go(0);
  const auto stories = job.finish(30);
  EXPECT_EQ(job.problem(), "");
  ASSERT_EQ(stories[0].size(), 9u) << "it ended before its script did";
  EXPECT_EQ(stories[0][4].code, tuttiTimeout) << stories[0][4].text;
  EXPECT_NE(stories[0][4].text.find(" s for a signal of rank 1"), std::string::npos) << stories[0][4].text;
  EXPECT_NE(stories[0][5].code, tuttiSuccess) << "rank 1 has not deregistered";
  EXPECT_EQ(stories[0][8].code, tuttiSuccess) << "its part was written after it was deregistered";
  EXPECT_NE(stories[1].back().code, tuttiInternalError) << "a get has returned what the part has not held";
}

/// By transport, call and memory.
class StoppedRank : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(StoppedRank, UsesNoWindowThatWasDeregistered) {
  const auto& [transport, call, memory] = GetParam();
  const bool hosts = transport == "tcp";
  std::mt19937_64 random(1);
  for (int run = 0; run < 2 && !HasFailure(); ++run) {
    const double moment = std::uniform_real_distribution<double>(1e-3, 60e-3)(random);
    SCOPED_TRACE("stopped after " + std::to_string(moment * 1e3) + " ms");
    stop_and_go_on({transport, 2, std::string("TUTTI_TIMEOUT=1") + (hosts ? " TUTTI_FORCE_REMOTE=1" : "")}, call,
                   memory, moment);
  }
}

INSTANTIATE_TEST_SUITE_P(Fault, StoppedRank,
                         testing::Values(std::tuple("shm", "put", ""), std::tuple("shm", "put", " mapped"),
                                         std::tuple("tcp", "put", ""), std::tuple("tcp", "put", " mapped"),
                                         std::tuple("shm", "get", ""), std::tuple("shm", "get", " mapped")));

}  // namespace
}  // namespace tutti::fault
