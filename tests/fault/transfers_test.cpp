// Sends and receives that do not fit, ranks that leave early, and ranks that are configured differently.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

class Pair : public ::testing::TestWithParam<std::string> {
 protected:
  /// What both ranks told, line by line, of two scripts.
  std::vector<Story> play(const std::string& first, const std::string& second, const std::string& more = "") {
    Job job({GetParam(), 2, "TUTTI_TIMEOUT=5 " + more}, [&](int rank) { return rank == 0 ? first : second; });
    auto stories = job.finish();
    EXPECT_EQ(job.problem(), "");
    return stories;
  }
};

/// Threads do not die alone, and share one configuration.
class PairOfProcesses : public Pair {};

/// The first line that failed, which must have done so as `code`, with all the words in its text.
void expect_failure(const Story& story, int code, const std::vector<std::string>& words) {
  const auto failed = std::find_if(story.begin(), story.end(), [](const Told& t) { return t.code != tuttiSuccess; });
  ASSERT_NE(failed, story.end()) << "nothing failed";
  EXPECT_EQ(failed->code, code) << failed->text;
  EXPECT_LT(failed->seconds, 15);
  for (const auto& word : words) EXPECT_NE(failed->text.find(word), std::string::npos) << word << ": " << failed->text;
}

TEST_P(Pair, TransfersOfDifferentCountsAreAMismatch) {
  for (const char* sizes : {"8 9", "5000 5001", "300000 7"}) {
    SCOPED_TRACE(sizes);
    std::string sent, received;
    std::istringstream(sizes) >> sent >> received;
    const auto stories = play("barrier\nsend " + sent + " f32 1\nbarrier\ndestroy",
                              "barrier\nrecv " + received + " f32 0\nbarrier\ndestroy");
    for (const Story& story : stories) {
      expect_failure(story, tuttiMismatch,
                     {fmt::format("send(count={}, f32, to rank 1)", sent),
                      fmt::format("recv(count={}, f32, from rank 0)", received)});
    }
  }
}

TEST_P(Pair, TransfersOfDifferentTypesAreAMismatch) {
  for (const Story& story : play("send 4 f32 1\nbarrier\ndestroy", "recv 4 i32 0\nbarrier\ndestroy")) {
    expect_failure(story, tuttiMismatch, {"send(count=4, f32, to rank 1)", "recv(count=4, i32, from rank 0)"});
  }
}

TEST_P(Pair, TheTransferOfAGroupThatDiffersIsNamed) {
  const auto group = [](const std::string& call, const std::string& peer, const char* third) {
    return "start\n" + call + " 4 f32 " + peer + "\n" + call + " 70 u8 " + peer + "\n" + call + third + peer +
           "\nend\nbarrier\ndestroy";
  };
  for (const Story& story : play(group("send", "1", " 100 f64 "), group("recv", "0", " 99 f64 "))) {
    expect_failure(story, tuttiMismatch, {"send(count=100, f64, to rank 1)", "recv(count=99, f64, from rank 0)"});
  }
}

TEST_P(Pair, ARankThatLeavesEarlyIsNamed) {
  const auto stories = play("barrier\nbarrier\ndestroy", "barrier\ndestroy");
  expect_failure(stories[0], tuttiMismatch, {"rank 1 called destroy() as call 2 where rank 0 called barrier()"});
}

TEST_P(Pair, ARankThatMakesOneCallMoreIsFoundAtTheEnd) {
  // Rank 0 as a broadcast's root waits for nobody.
  const auto stories = play("barrier\nbroadcast 4 f32 0\ndestroy", "barrier\ndestroy");
  int told = 0;
  for (const Story& story : stories) {
    // Of the ranks of one process only the last to leave can know: the others do not wait.
    if (GetParam() == "local" && story.back().code == tuttiSuccess) continue;
    expect_failure(story, tuttiMismatch, {"rank 0 ", "rank 1 "});
    ++told;
  }
  EXPECT_GE(told, 1);
}

TEST_P(Pair, RanksThatBothOnlyReceiveAreToldThatTheyWaitForEachOther) {
  const auto stories = play("recv 4 f32 1\ndestroy", "recv 4 f32 0\ndestroy");
  for (const Story& story : stories) {
    expect_failure(story, tuttiMismatch,
                   {"wait for each other", "recv(count=4, f32, from rank 0)", "recv(count=4, f32, from rank 1)"});
  }
}

TEST_P(PairOfProcesses, AProcessThatExitsWithoutLeavingIsNamed) {
  const auto stories = play("barrier\nbarrier\ndestroy", "barrier\nexit");
  expect_failure(stories[0], tuttiPeerFailed, {"rank 1"});
}

TEST_P(PairOfProcesses, DifferentConfigurationsAreAMismatch) {
  for (const char* difference : {"TUTTI_MESSAGE=64K", "TUTTI_ALGO=all_reduce:ring", "TUTTI_REPRODUCIBLE=1"}) {
    Job job({GetParam(), 2, "", difference}, [](int) { return "barrier"; });
    const std::string name = std::string(difference).substr(0, std::string(difference).find('='));
    for (const Story& story : job.finish()) expect_failure(story, tuttiMismatch, {name, "on rank 0", "on rank 1"});
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, PairOfProcesses, ::testing::Values("shm", "tcp"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Transports, Pair, ::testing::Values("local", "shm", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tutti::fault
