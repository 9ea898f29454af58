// kill -9 of one rank in the middle of a call: the others get an error that names it within a second, and nothing is
// left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "fault/job.hpp"
#include "fault/residue.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kNoticedWithin = 5;  // seconds; sanitizers slow all down
#else
constexpr double kNoticedWithin = 1;
#endif

using Parameters = std::tuple<std::string, int, int, std::string>;  // transport, ranks, victim, call

class Killed : public testing::TestWithParam<Parameters> {
 protected:
  /// Other programs create and remove files and sockets: only what still exists after a while is residue.
  static std::vector<std::string> left_behind(const std::set<std::string>& before) {
    std::vector<std::string> left;
    for (int i = 0; i < 40; ++i) {
      const auto after = lasting_things();
      left.clear();
      std::copy_if(after.begin(), after.end(), std::back_inserter(left), [&](const std::string& thing) {
        return before.count(thing) == 0 && thing.find("tutti") != std::string::npos;
      });
      if (left.empty()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return left;
  }
};

TEST_P(Killed, IsNoticedByAllOthersWithinASecond) {
  const auto& [transport, ranks, victim, call] = GetParam();
  const std::string mark = fmt::format("MARK_OF_THIS_TEST={}.{}", getpid(), now());
  const auto before = lasting_things();
  double killed = 0;
  {
    Job job({transport, ranks, "TUTTI_TIMEOUT=30 " + mark},
            [&, &line = call](int) { return line + "\nrepeat " + line + "\nbarrier\ndestroy"; });
    for (int rank = 0; rank < ranks; ++rank) job.await(rank, 0);
    // All ranks are in the second call or between calls; most of the time in the middle of one.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    killed = now();
    job.child_of(victim).signal(SIGKILL);
    const auto results = job.finish(30);
    EXPECT_EQ(job.problem(), "");
    double slowest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      const Story& story = results[static_cast<size_t>(rank)];
      ASSERT_EQ(story.size(), 5u) << "it ended before its script did";
      for (const LineResult& report : story) {
        if (report.line < 1) continue;
        EXPECT_EQ(report.code, tuttiPeerFailed) << report.text;
        EXPECT_NE(report.text.find(fmt::format("rank {} ", victim)), std::string::npos) << report.text;
      }
      slowest = std::max(slowest, story[2].at - killed);
    }
    RecordProperty("seconds", fmt::format("{:.3f}", slowest));
    fmt::print("{:<6} n={} killed rank {} in {}: the last rank knew after {:.3f} s\n", transport, ranks, victim, call,
               slowest);
    EXPECT_LT(slowest, kNoticedWithin);
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(left_behind(before), "; ")), "");
  EXPECT_EQ(fmt::format("{}", fmt::join(processes_with(mark), " ")), "");
}

// ThreadSanitizer has several bytes for each that is touched (4.5 GB a rank of the longest calls), and a call of an
// eighth of the length takes it as long.
#ifdef __SANITIZE_THREAD__
constexpr size_t kMi = 1 << 17;
#else
constexpr size_t kMi = 1 << 20;
#endif

const std::string kAllReduce = fmt::format("all_reduce {} f32 sum", 16 * kMi);  // 64 MiB

INSTANTIATE_TEST_SUITE_P(AllReduce, Killed,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(2, 4), testing::Values(0, 1),
                                          testing::Values(kAllReduce)));
// Blocks that are read directly from the peer's memory.
INSTANTIATE_TEST_SUITE_P(Pulled, Killed,
                         testing::Combine(testing::Values("shm"), testing::Values(2, 3), testing::Values(0, 1),
                                          testing::Values(fmt::format("all_to_all {} f32", 8 * kMi),
                                                          fmt::format("all_to_all {} f32 mapped", 2 * kMi))));
// … and copied by both ends.
INSTANTIATE_TEST_SUITE_P(Helped, Killed,
                         testing::Combine(testing::Values("shm"), testing::Values(2), testing::Values(0, 1),
                                          testing::Values(fmt::format("gather {} f32 0", 8 * kMi),
                                                          fmt::format("broadcast {} f32 0 mapped", 8 * kMi),
                                                          "broadcast 262144 f32 0")));
// … or folded directly into the destination.
INSTANTIATE_TEST_SUITE_P(Placed, Killed,
                         testing::Combine(testing::Values("shm"), testing::Values(2, 3), testing::Values(0, 1),
                                          testing::Values(fmt::format("all_reduce {} f32 sum mapped", 8 * kMi))));
INSTANTIATE_TEST_SUITE_P(Others, Killed,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Values(3), testing::Values(2, 0),
                                          testing::Values(fmt::format("all_gather {} f32", 4 * kMi), "barrier")));

}  // namespace
}  // namespace tutti::fault
