// Splits share connections and files with the communicator that they are made of, but not its fate.
#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

constexpr int kRanks = 4;

size_t descriptors_of(pid_t process) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(fmt::format("/proc/{}/fd", process).c_str()), closedir);
  size_t count = 0;
  while (folder != nullptr && readdir(folder.get()) != nullptr) ++count;
  return count;
}

/// KiB, of pages that several processes share each one's part.
uint64_t memory_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", process));
  uint64_t kib = 0;
  for (std::string word; file >> word;) {
    if (word == "Pss:") file >> kib;
  }
  return kib;
}

struct Use {
  size_t descriptors = 0;
  uint64_t kib = 0;  // of all processes
};

Use use_of(Job& job) {
  Use use;
  for (int rank = 0; rank < kRanks; ++rank) {
    use.descriptors = std::max(use.descriptors, descriptors_of(job.child_of(rank).process()));
    use.kib += memory_of(job.child_of(rank).process());
  }
  return use;
}

void expect_success(const std::vector<Story>& results, int first_rank = 0) {
  for (size_t rank = static_cast<size_t>(first_rank); rank < results.size(); ++rank) {
    for (const LineResult& line : results[rank])
      EXPECT_EQ(line.code, tuttiSuccess) << "rank " << rank << ", line " << line.line << ": " << line.text;
  }
}

class Splits : public testing::TestWithParam<const char*> {};

/// Two hundred of them, alive and used: of all ranks, of halves, and in reverse order, so that every process holds
/// rendezvous servers.
TEST_P(Splits, NeedFewDescriptorsAndLittleMemory) {
  constexpr int kSplits = 200;
  const std::string script = fmt::format("all_reduce 1 i32 sum\nwait\nsplits {}\nwait\ndestroy_all\nwait", kSplits);
  Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=60"}, [&](int) { return script; });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  const Use before = use_of(job);
  for (int rank = 0; rank < kRanks; ++rank) job.go(rank);
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 2);
  const Use after = use_of(job);
  for (int rank = 0; rank < kRanks; ++rank) job.go(rank);
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 4);
  const double end = now() + 10;  // what ranks of other processes need is kept until they have left
  while (use_of(job).descriptors > before.descriptors && now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(use_of(job).descriptors, before.descriptors) << "everything is destroyed";
  for (int rank = 0; rank < kRanks; ++rank) job.go(rank);
  expect_success(job.finish(120));
  EXPECT_EQ(job.problem(), "");
  fmt::print("{}: {} splits take {} descriptors of a process and {} MiB of all\n", GetParam(), kSplits,
             after.descriptors - before.descriptors, (after.kib - before.kib) >> 10);
  if (std::string(GetParam()) == "shm") {  // of tcp, each link is a connection
    EXPECT_LE(after.descriptors, before.descriptors + 100);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(after.kib, before.kib + 200 * 1024);
#endif
}

/// The parent's ranks leave it; its trunks stay for the splits, and for splits of those.
TEST_P(Splits, OutliveTheirParent) {
  Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=30"}, [](int rank) {
    return fmt::format(
        "barrier\nsplit {} {}\ndestroy\nuse 1\nall_reduce 1000 f32 sum\nsplit 0 {}\nuse 2\nall_reduce 10 i32 max\n"
        "destroy\nuse 1\nbarrier\ndestroy",
        rank % 2, rank, kRanks - rank);
  });
  expect_success(job.finish(60));
  EXPECT_EQ(job.problem(), "");
}

/// A rank dies: the parent and the dead rank's own split fail, the split of the other ranks goes on. That holds for
/// rank 0 too, whose process has the parent's rendezvous server.
TEST_P(Splits, OfOthersSurviveADeath) {
  for (const int victim : {0, 3}) {
    SCOPED_TRACE(fmt::format("victim {}", victim));
    const int half = victim / 2;
    Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=30"}, [&](int rank) {
      std::string script = fmt::format("split {} {}\nuse 1\nall_reduce 1 i32 sum\n", rank / 2, rank);
      if (rank == victim) return script + "wait\nkill";
      if (rank / 2 == half) return script + "repeat barrier\nuse 0\nbarrier";
      script += "use 0\nrepeat barrier\nuse 1\n";
      for (int i = 0; i < 100; ++i) script += "all_reduce 1000 f32 sum\n";
      return script + fmt::format("split 0 {}\nuse 2\nbarrier\ndestroy\nuse 1\ndestroy", rank);
    });
    for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 2);  // all have their splits
    job.go(victim);
    const auto results = job.finish(60);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      const Story& story = results[static_cast<size_t>(rank)];
      const size_t failing = rank / 2 == half ? 3 : 4;
      for (const LineResult& line : story) {
        const bool fails = static_cast<size_t>(line.line) == failing || (rank / 2 == half && line.line == 5);
        EXPECT_EQ(line.code, fails ? tuttiPeerFailed : tuttiSuccess) << "line " << line.line << ": " << line.text;
        if (fails) {
          EXPECT_NE(line.text.find("is gone"), std::string::npos) << line.text;
        }
      }
      EXPECT_EQ(story.size(), rank / 2 == half ? 7u : 113u) << "it ended before its script did";
    }
  }
}

/// The rank that would hold the split's rendezvous server dies before it comes. (After the exchange that numbers the
/// ranks: Process.ASplitNamesTheDeadRankThatWouldHoldItsServer.)
TEST_P(Splits, FailWithTheRankThatWouldHoldTheServer) {
  Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=30"}, [](int rank) {
    return rank == 2 ? std::string("barrier\nkill") : fmt::format("barrier\nsplit 0 {}", rank == 1 ? 3 : 4 + rank);
  });
  const auto results = job.finish(60);
  for (const size_t rank : {0u, 1u, 3u}) {
    ASSERT_EQ(results[rank].size(), 3u);
    const LineResult& split = results[rank].back();
    EXPECT_EQ(split.code, tuttiPeerFailed) << split.text;
    EXPECT_NE(split.text.find("rank 2 "), std::string::npos) << split.text;
  }
}

/// While no split is alive, nothing is sent on a trunk. The next split must not take that for a lost process.
TEST_P(Splits, ComeLongAfterTheOnesBefore) {
  Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=30 TUTTI_HEARTBEAT_TIMEOUT=0.4"}, [](int) {
    return std::string("split 0 0\nuse 1\nbarrier\ndestroy\nuse 0\nwait\nsplit 0 0\nuse 2\nbarrier\ndestroy\nwait");
  });
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 4);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Use between = use_of(job);
  for (int rank = 0; rank < kRanks; ++rank) job.go(rank);
  for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 9);
  EXPECT_LE(use_of(job).descriptors, between.descriptors) << "what was replaced is closed";
  for (int rank = 0; rank < kRanks; ++rank) job.go(rank);
  expect_success(job.finish(60));
}

/// A stopped process fails the splits that it is part of, within the heartbeat, and no others.
TEST_P(Splits, OfOthersSurviveAStop) {
  constexpr int kVictim = 1;
  Job job({GetParam(), kRanks, "TUTTI_TIMEOUT=30 TUTTI_HEARTBEAT_TIMEOUT=1"}, [](int rank) {
    const std::string halves = fmt::format("split {} {}\nuse 1\nbarrier\n", rank / 2, rank);
    if (rank == kVictim) return halves + "barrier\nwait";
    if (rank == 0) return halves + "barrier\nrepeat barrier";
    return halves + "barrier\nuse 0\nrepeat barrier\nuse 1\nall_reduce 1000 f32 sum\nbarrier";
  });
  job.await(kVictim, 3);
  job.child_of(kVictim).signal(SIGSTOP);
  for (const int rank : {0, 2, 3}) job.await(rank, rank == 0 ? 4 : 8);
  job.child_of(kVictim).signal(SIGCONT);
  job.go(kVictim);
  const auto results = job.finish(60);
  for (const int rank : {0, 2, 3}) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = results[static_cast<size_t>(rank)];
    ASSERT_EQ(story.size(), rank == 0 ? 6u : 10u);
    for (const LineResult& line : story) {
      const bool fails = line.line == (rank == 0 ? 4 : 5);
      EXPECT_EQ(line.code, fails ? tuttiPeerFailed : tuttiSuccess) << "line " << line.line << ": " << line.text;
      if (fails) {
        EXPECT_NE(line.text.find("rank 1 "), std::string::npos) << line.text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Splits, testing::Values("shm", "tcp"),
                         [](const auto& parameters) { return std::string(parameters.param); });

}  // namespace
}  // namespace tutti::fault
