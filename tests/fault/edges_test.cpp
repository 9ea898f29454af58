// Ranks that die or stop while communicators are made, used and left: what each of the others hears, and how soon.
//
// A cell of the matrix is a way to go, a phase, a rank that goes and a transport. Rank 3 is late in every phase, so
// that the others are surely in it; it acts when the others have heard.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <thread>

#include "fault/job.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

constexpr int kRanks = 4, kLate = 3;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 10;  // times
#else
constexpr double kSlower = 1;
#endif
constexpr double kDeathSeconds = 0.5 * kSlower;
constexpr double kHeartbeatSeconds = 1, kStopSeconds = kHeartbeatSeconds + 1.5 * kSlower;
constexpr double kInitSeconds = 4;

enum class Way { Died, Stopped };
enum class Phase { BeforeRegistering, Registered, Split, Shrink, Call, Destroy, AfterGoodbye, Finalize };

/// What a rank does in a phase. `late`: it waits for the word before it does so; `goes`: it is the one that goes.
std::string script(Phase phase, bool late, bool goes) {
  const std::string wait = late ? "wait\n" : "";
  switch (phase) {
    case Phase::BeforeRegistering:
      return goes || late ? "hold\nbarrier" : "barrier\nwait";  // the server's process is there for late ranks
    case Phase::Registered:
      return late ? "hold\nbarrier" : "barrier\nwait";
    case Phase::Split:
      return "barrier\n" + wait + "split 0 0";
    case Phase::Shrink:
      return "barrier\n" + wait + "shrink 1" + (late ? "" : "\nwait");  // nor is it gone for the late rank
    case Phase::Call:
      return "barrier\n" + wait + "barrier";
    case Phase::Destroy:
      return goes ? "barrier\nwait" : "barrier\n" + wait + "destroy";
    case Phase::AfterGoodbye:
      return "barrier\n" + wait + "destroy";
    case Phase::Finalize:
      return goes ? "barrier\nwait" : "barrier\n" + wait + "finalize";
  }
  return "";
}

/// The line whose result tells of it; −1: that of joining.
int telling_line(Phase phase, bool late) {
  return phase == Phase::BeforeRegistering || phase == Phase::Registered ? -1 : late ? 2 : 1;
}

struct Cell {
  Way way;
  Phase phase;
  int victim;
  std::string transport;
};

/// A cell, with pauses before the rank goes and before the late one acts.
void play(const Cell& cell, double before, double after) {
  const bool making = cell.phase == Phase::BeforeRegistering || cell.phase == Phase::Registered;
  // One that is not there yet does not speak: its absence is told when joining times out.
  const bool unknown = cell.phase == Phase::BeforeRegistering && cell.victim != 0;
  Job job({cell.transport, kRanks,
           fmt::format("TUTTI_TIMEOUT=20 TUTTI_INIT_TIMEOUT={} TUTTI_HEARTBEAT_TIMEOUT={}", kInitSeconds,
                       kHeartbeatSeconds)},
          [&](int rank) { return script(cell.phase, rank == kLate, rank == cell.victim); });
  if (!making) {
    for (int rank = 0; rank < kRanks; ++rank) job.await(rank, 0);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(before));  // nothing tells that ranks wait in the phase
  const double gone = now();
  job.child_of(cell.victim).signal(cell.way == Way::Died ? SIGKILL : SIGSTOP);
  const int excluded = cell.phase == Phase::Shrink ? 1 : -1;
  const auto hears = [&](int rank) { return rank != cell.victim && rank != kLate && rank != excluded; };
  for (int rank = 0; rank < kRanks; ++rank) {
    if (hears(rank) && cell.phase != Phase::AfterGoodbye) job.await(rank, telling_line(cell.phase, false));
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(after));  // how late the late one is
  job.go(kLate);
  if (excluded >= 0) job.child_of(excluded).signal(SIGKILL);
  job.await(kLate, telling_line(cell.phase, true));
  job.child_of(cell.victim).signal(SIGKILL);
  for (int rank = 0; rank < kLate && (making || cell.phase == Phase::Shrink); ++rank) {
    if (hears(rank)) job.go(rank);
  }
  const auto results = job.finish();
  EXPECT_EQ(job.problem(), "");
  const double within = unknown ? kInitSeconds + kDeathSeconds : cell.way == Way::Died ? kDeathSeconds : kStopSeconds;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == cell.victim || rank == excluded) continue;
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const Story& story = results[static_cast<size_t>(rank)];
    const auto line = std::find_if(story.begin(), story.end(), [&](const LineResult& result) {
      return result.line == telling_line(cell.phase, rank == kLate);
    });
    ASSERT_NE(line, story.end()) << "it told nothing";
    if (cell.phase == Phase::AfterGoodbye && (cell.victim != 0 || rank == kLate)) continue;  // nobody needs it any more
    EXPECT_EQ(line->code, unknown ? tuttiTimeout : tuttiPeerFailed) << line->text;
    const std::string name = fmt::format("{} {}", unknown ? "missing: ranks" : "rank", cell.victim);
    EXPECT_NE(line->text.find(name), std::string::npos) << line->text;
    if (rank != kLate) {
      EXPECT_LT(line->at - gone, within) << line->text;
    }
  }
}

using Parameters = std::tuple<Way, Phase, int, std::string>;
class Edge : public ::testing::TestWithParam<Parameters> {};

TEST_P(Edge, IsTold) {
  const auto& [way, phase, victim, transport] = GetParam();
  play({way, phase, victim, transport}, 0.15, 0);
}

std::string name_of_cell(const ::testing::TestParamInfo<Parameters>& test) {
  constexpr const char* kWays[] = {"Died", "Stopped"};
  constexpr const char* kPhases[] = {"BeforeRegistering", "Registered", "InSplit",      "InShrink",
                                     "InACall",           "InDestroy",  "AfterGoodbye", "InFinalize"};
  const auto& [way, phase, victim, transport] = test.param;
  return fmt::format("{}{}_rank{}_{}", kWays[static_cast<int>(way)], kPhases[static_cast<int>(phase)], victim,
                     transport);
}

const auto kWays = ::testing::Values(Way::Died, Way::Stopped);
const auto kPhases = ::testing::Values(Phase::BeforeRegistering, Phase::Registered, Phase::Split, Phase::Shrink,
                                       Phase::Call, Phase::Destroy, Phase::AfterGoodbye, Phase::Finalize);
INSTANTIATE_TEST_SUITE_P(Of, Edge,
                         ::testing::Combine(kWays, kPhases, ::testing::Values(0, 2), ::testing::Values("shm", "tcp")),
                         name_of_cell);

/// Random cells at random moments.
TEST(RandomEdges, AreTold) {
  constexpr int kRuns = 300;
  for (uint64_t seed = 1; seed <= kRuns && !::testing::Test::HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    const Cell cell{static_cast<Way>(pick(1)), static_cast<Phase>(pick(7)), 2 * pick(1), pick(1) == 0 ? "shm" : "tcp"};
    const double before = std::uniform_real_distribution<double>(0.1, 0.3)(random);
    SCOPED_TRACE(fmt::format("seed {}: way {}, phase {}, rank {}, {}", seed, static_cast<int>(cell.way),
                             static_cast<int>(cell.phase), cell.victim, cell.transport));
    play(cell, before, std::uniform_real_distribution<double>(0, 0.2)(random));
  }
}

}  // namespace
}  // namespace tutti::fault
