// A rank revokes a communicator whose id's maker cannot pass the revocation on: its process is dead, or stopped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

const char* const kRevoked = " revoked the communicator";

/// Where the ranks run, as test names say it.
struct Where {
  const char* name;
  Stage stage;
  std::vector<int> victims;  ///< rank 0 made the id; the first survivor revokes
  friend void PrintTo(const Where& where, std::ostream* out) { *out << where.name; }
};

class Revocation : public testing::TestWithParam<Where> {
 protected:
  bool is_victim(int rank) const { return std::count(victims.begin(), victims.end(), rank) > 0; }
  std::string excluded() const { return fmt::format("{}", fmt::join(victims, " ")); }
  int revoker() const {
    int rank = 0;
    while (is_victim(rank)) ++rank;
    return rank;
  }
  /// Awaits the job's end.
  template <class Body>
  void expect_of_survivors(Job& job, const Body& expect) const {
    const auto stories = job.finish(60);
    EXPECT_EQ(job.problem(), "");
    for (int rank = 0; rank < stage.ranks; ++rank) {
      if (is_victim(rank)) continue;
      SCOPED_TRACE(fmt::format("rank {}", rank));
      expect(rank, stories[static_cast<size_t>(rank)]);
    }
  }

  const Stage& stage = GetParam().stage;
  const std::vector<int>& victims = GetParam().victims;
};

/// All survivors know of a death before, so the calls that waited have ended with it; later ones tell the revocation.
TEST_P(Revocation, ReachesAllSurvivorsOfTheMakerOfTheId) {
  Job job(stage, [&](int rank) {
    return fmt::format(
        "barrier\nrepeat barrier\nwait\n{}\nuntil_revoked\nshrink {}\nuse 1\nall_reduce 1000 f32 sum\ndestroy",
        rank == revoker() ? "revoke" : "use 0", excluded());
  });
  for (int rank = 0; rank < stage.ranks; ++rank) job.await(rank, 0);
  for (const int victim : victims) job.child_of(victim).signal(SIGKILL);
  for (int rank = 0; rank < stage.ranks; ++rank) {
    if (!is_victim(rank)) job.await(rank, 1);
  }
  for (int rank = 0; rank < stage.ranks; ++rank) {
    if (!is_victim(rank)) job.go(rank);
  }
  expect_of_survivors(job, [&](int, const Story& story) {
    ASSERT_EQ(story.size(), 10U);
    EXPECT_EQ(story[2].code, tuttiPeerFailed) << story[2].text;
    EXPECT_EQ(story[5].code, tuttiRevoked) << story[5].text;
    EXPECT_NE(story[5].text.find(fmt::format("rank {} (", revoker())), std::string::npos) << story[5].text;
    EXPECT_NE(story[5].text.find(fmt::format("{}; before that: ", kRevoked)), std::string::npos) << story[5].text;
    for (size_t i = 6; i < story.size(); ++i) EXPECT_EQ(story[i].code, tuttiSuccess) << i << ": " << story[i].text;
  });
}

/// Nobody knows that anything is wrong: the calls that wait are ended by the revocation.
TEST_P(Revocation, EndsCallsThatWaitWhereTheMakerOfTheIdIsStopped) {
  Stage patient = stage;
  patient.environment += " TUTTI_HEARTBEAT_TIMEOUT=300 TUTTI_TIMEOUT=300";
  Job job(patient, [&](int rank) {
    if (rank == revoker()) {
      return fmt::format("barrier\nwait\nrevoke\nbarrier\nshrink {}\nuse 1\nall_reduce 1000 f32 sum\ndestroy",
                         excluded());
    }
    return fmt::format("barrier\nbarrier\nbarrier\nshrink {}\nuse 1\nall_reduce 1000 f32 sum\ndestroy", excluded());
  });
  for (int rank = 0; rank < stage.ranks; ++rank) job.await(rank, 0);
  for (const int victim : victims) job.child_of(victim).signal(SIGSTOP);
  job.go(revoker());
  for (int rank = 0; rank < stage.ranks; ++rank) {
    if (!is_victim(rank)) job.await(rank, rank == revoker() ? 7 : 6);
  }
  for (const int victim : victims) job.child_of(victim).signal(SIGKILL);
  expect_of_survivors(job, [&](int rank, const Story& story) {
    const size_t first = rank == revoker() ? 4 : 2, shrink = rank == revoker() ? 5 : 4;
    ASSERT_EQ(story.size(), rank == revoker() ? 9U : 8U);
    for (size_t i = first; i < shrink; ++i) {
      EXPECT_EQ(story[i].code, tuttiRevoked) << story[i].text;
      EXPECT_NE(story[i].text.find(kRevoked), std::string::npos) << story[i].text;
    }
    for (size_t i = shrink; i < story.size(); ++i) EXPECT_EQ(story[i].code, tuttiSuccess) << i << ": " << story[i].text;
  });
}

Stage ranks(const char* transport, int count, int a_process, const char* more) {
  Stage stage{transport, count, std::string("TUTTI_INIT_TIMEOUT=30 ") + more};
  stage.threads = a_process;
  return stage;
}

constexpr const char* kHosts = "TUTTI_FORCE_REMOTE=1";  // each process counts as a host of its own

INSTANTIATE_TEST_SUITE_P(Of, Revocation,
                         testing::Values(Where{"Processes", ranks("shm", 4, 1, ""), {0}},
                                         Where{"Streams", ranks("tcp", 4, 1, ""), {0}},
                                         Where{"Hosts", ranks("tcp", 4, 1, kHosts), {0}},
                                         Where{"HostsOfTwoRanks", ranks("tcp", 6, 2, kHosts), {0, 1}},
                                         Where{"ProcessesOverDeadOnes", ranks("shm", 6, 1, ""), {0, 2, 3}},
                                         Where{"HostsOverDeadOnes", ranks("tcp", 6, 1, kHosts), {0, 2, 3}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tutti::fault
