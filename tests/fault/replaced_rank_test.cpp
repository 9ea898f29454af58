// A rank of a loop of all-reduces is killed; a new process takes its place, and the loop ends with the right sums.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/child.hpp"
#include "support/id_text.hpp"
#include "tutti/tutti.hpp"

namespace tutti::fault {
namespace {

using test::Child;
using test::Line;

constexpr int kRanks = 4, kSteps = 2000, kWarm = 10;
constexpr size_t kCount = 3000;

/// A communicator in which new processes have the places of the dead. The first rank that stays tells the test the id.
Communicator replaced(Communicator& failed, Line& test) {
  failed.revoke();  // ranks that wait for others than the dead hear of it
  for (;;) {
    const std::vector<int> dead = failed.failed_ranks();
    if (dead.empty()) {
      std::this_thread::yield();
      continue;
    }
    const int first = static_cast<int>(std::find(dead.begin(), dead.end(), 0) == dead.end() ? 0 : 1);
    try {
      if (failed.rank() == first) test.tell("id " + test::hex_of(failed.grow_id(dead, failed.size())));
      return failed.grow(dead, failed.size());
    } catch (const Error& error) {
      if (error.code() != Code::PeerFailed || failed.failed_ranks() == dead) throw;
    }
  }
}

/// The step that all ranks make next: a newcomer has made none.
int agreed_step(Communicator& comm, int own) {
  comm.all_reduce(own, Op::Max);
  return own;
}

/// Argument: rank, and "new" if it takes the place of a dead one. The id comes over the line.
int loop(const std::string& argument, Line& test) {
  int rank = 0;
  std::string how;
  std::istringstream(argument) >> rank >> how;
  try {
    tuttiUniqueId id;
    if (rank == 0 && how != "new") {
      id = Communicator::unique_id();
      test.tell(test::hex_of(id));
    } else {
      id = test::id_from(test.receive());
    }
    Communicator comm(kRanks, id, rank);
    int wrong = 0;
    for (int step = how == "new" ? agreed_step(comm, 0) : 0; step < kSteps; ++step) {
      std::vector<int> sums(kCount, step + comm.rank());
      try {
        comm.all_reduce(sums);
      } catch (const Error&) {
        comm = replaced(comm, test);
        step = agreed_step(comm, step) - 1;  // again, with the new ones
        continue;
      }
      const int right = kRanks * step + kRanks * (kRanks - 1) / 2;
      wrong += static_cast<int>(std::count_if(sums.begin(), sums.end(), [&](int sum) { return sum != right; }));
      if (step == kWarm && how != "new") test.tell("warm");
    }
    comm.close();
    test.tell(fmt::format("done, {} wrong", wrong));
  } catch (const Error& error) {
    test.tell(error.what());
    return 1;
  }
  return 0;
}
const test::Role role("loop", loop);

struct LoopJob {
  std::string environment;
  std::vector<std::unique_ptr<Child>> ranks;

  explicit LoopJob(std::string with) : environment(std::move(with)) {
    std::string id;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::make_unique<Child>("loop", std::to_string(rank), environment));
      if (rank == 0) {
        id = ranks.front()->receive();
      } else {
        ranks.back()->tell(id);
      }
    }
    for (const auto& rank : ranks) EXPECT_EQ(rank->receive(), "warm");
  }
  Child& at(int rank) { return *ranks[static_cast<size_t>(rank)]; }
  void start_again(int rank, const std::string& id) {
    ranks[static_cast<size_t>(rank)] = std::make_unique<Child>("loop", fmt::format("{} new", rank), environment);
    at(rank).tell(id);
  }
  /// Kills a rank; returns the id for its successor, which the first other rank tells.
  std::string kill(int victim) {
    at(victim).signal(SIGKILL);
    const std::string told = at(victim == 0 ? 1 : 0).receive();
    EXPECT_TRUE(told.starts_with("id ")) << told;
    return told.substr(3);
  }
  void expect_right_sums() {
    for (const auto& rank : ranks) EXPECT_EQ(rank->receive(), "done, 0 wrong");
    for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
  }
};

class ReplacedRank : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(ReplacedRank, HasItsNumberAndTheLoopEndsWithTheRightSums) {
  const auto& [environment, victim] = GetParam();
  LoopJob job(environment);
  job.start_again(victim, job.kill(victim));
  job.expect_right_sums();
}

/// Joins as one of kRanks and tells how that ended.
int join(const std::string& argument, Line& test) {
  const tuttiUniqueId id = test::id_from(test.receive());
  tuttiComm_t comm = nullptr;
  const tuttiResult_t result = tuttiCommInitRank(&comm, kRanks, id, std::stoi(argument));
  test.tell(result == tuttiSuccess ? "joined" : tuttiGetLastError());
  return 0;
}
const test::Role join_role("join", join);

TEST_P(ReplacedRank, IsReplacedOnlyByANewcomerForItsPlace) {
  const auto& [environment, victim] = GetParam();
  LoopJob job(environment);
  const std::string id = job.kill(victim);
  const auto answer_to = [&](const std::string& with, int rank) {
    Child child("join", std::to_string(rank), environment);
    child.tell(with);
    return child.receive();
  };
  const std::string kept = answer_to(id, 3);
  EXPECT_NE(kept.find("rank 3 of the communicator that grows stays process"), std::string::npos) << kept;
  EXPECT_NE(kept.find(fmt::format("another place: rank {}", victim)), std::string::npos) << kept;
  std::string forged = id;
  forged[20] = forged[20] == '0' ? '1' : '0';  // of the key
  const std::string rejected = answer_to(forged, victim);
  EXPECT_NE(rejected.find("checksum"), std::string::npos) << rejected;
  job.start_again(victim, id);
  job.expect_right_sums();
  const std::string late = answer_to(id, victim);  // the token of a communicator that has ended
  EXPECT_NE(late.find("could not join"), std::string::npos) << late;
}

INSTANTIATE_TEST_SUITE_P(Of, ReplacedRank,
                         testing::Combine(testing::Values("TUTTI_TRANSPORT=shm",
                                                          "TUTTI_TRANSPORT=tcp TUTTI_FORCE_REMOTE=1"),
                                          testing::Values(0, 2)));

}  // namespace
}  // namespace tutti::fault
