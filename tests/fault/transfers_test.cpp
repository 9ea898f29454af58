// Sends and receives that do not match, ranks that leave early, and ranks with different configurations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

class Pair : public testing::TestWithParam<std::string> {
 protected:
  /// Both ranks' results of two scripts, line by line.
  std::vector<Story> play(const std::string& first, const std::string& second, const std::string& more = "") {
    Job job({GetParam(), 2, "TUTTI_TIMEOUT=5 " + more}, [&](int rank) { return rank == 0 ? first : second; });
    auto results = job.finish();
    EXPECT_EQ(job.problem(), "");
    return results;
  }
};

/// Threads cannot die alone, and share one configuration.
class PairOfProcesses : public Pair {};

/// The first failed line, which must have `code` and all `words` in its text.
void expect_failure(const Story& story, int code, const std::vector<std::string>& words) {
  const auto failed =
      std::find_if(story.begin(), story.end(), [](const LineResult& t) { return t.code != tuttiSuccess; });
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
    const auto results = play("barrier\nsend " + sent + " f32 1\nbarrier\ndestroy",
                              "barrier\nrecv " + received + " f32 0\nbarrier\ndestroy");
    for (const Story& story : results) {
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

TEST_P(Pair, ADifferentTransferInAGroupIsNamed) {
  const auto group = [](const std::string& call, const std::string& peer, const char* third) {
    return "start\n" + call + " 4 f32 " + peer + "\n" + call + " 70 u8 " + peer + "\n" + call + third + peer +
           "\nend\nbarrier\ndestroy";
  };
  for (const Story& story : play(group("send", "1", " 100 f64 "), group("recv", "0", " 99 f64 "))) {
    expect_failure(story, tuttiMismatch, {"send(count=100, f64, to rank 1)", "recv(count=99, f64, from rank 0)"});
  }
}

TEST_P(Pair, ARankThatLeavesEarlyIsNamed) {
  const auto results = play("barrier\nbarrier\ndestroy", "barrier\ndestroy");
  expect_failure(results[0], tuttiMismatch, {"rank 1 called destroy() as call 2 where rank 0 called barrier()"});
}

TEST_P(Pair, AnAdditionalCallIsFoundAtTheEnd) {
  // Rank 0, a broadcast's root, waits for no rank.
  const auto results = play("barrier\nbroadcast 4 f32 0\ndestroy", "barrier\ndestroy");
  int report = 0;
  for (const Story& story : results) {
    // Among ranks of one process only the last to leave can know: the others do not wait.
    if (GetParam() == "local" && story.back().code == tuttiSuccess) continue;
    expect_failure(story, tuttiMismatch, {"rank 0 ", "rank 1 "});
    ++report;
  }
  EXPECT_GE(report, 1);
}

TEST_P(Pair, TwoReceivesAreADeadlock) {
  const auto results = play("recv 4 f32 1\ndestroy", "recv 4 f32 0\ndestroy");
  for (const Story& story : results) {
    expect_failure(story, tuttiMismatch,
                   {"wait for each other", "recv(count=4, f32, from rank 0)", "recv(count=4, f32, from rank 1)"});
  }
}

TEST_P(PairOfProcesses, AProcessThatExitsWithoutLeavingIsNamed) {
  const auto results = play("barrier\nbarrier\ndestroy", "barrier\nexit");
  expect_failure(results[0], tuttiPeerFailed, {"rank 1"});
}

TEST_P(PairOfProcesses, DifferentConfigurationsAreAMismatch) {
  for (const char* difference : {"TUTTI_MESSAGE=64K", "TUTTI_ALGO=all_reduce:ring", "TUTTI_REPRODUCIBLE=1"}) {
    Job job({GetParam(), 2, "", difference}, [](int) { return "barrier"; });
    const std::string name = std::string(difference).substr(0, std::string(difference).find('='));
    for (const Story& story : job.finish()) expect_failure(story, tuttiMismatch, {name, "on rank 0", "on rank 1"});
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, PairOfProcesses, testing::Values("shm", "tcp"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Transports, Pair, testing::Values("local", "shm", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tutti::fault
