// Ranks that die or stop while communicators are made, used and left: what each of the others hears, and how soon.
//
// A cell of the matrix is a way to go, a phase, a process that goes, the number of ranks in each process (threads) and
// a transport. The last process is late in every phase, so that the others are surely in it; it acts when they have
// heard.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "fault/job.hpp"
#include "fault/script.hpp"
#include "tutti/tutti.h"

namespace tutti::fault {
namespace {

constexpr int kProcesses = 4, kLate = 3;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 10;  // times
#else
constexpr double kSlower = 1;
#endif
constexpr double kDeathSeconds = 0.5 * kSlower;
constexpr double kHeartbeatSeconds = 1, kStopSeconds = kHeartbeatSeconds + 1.5 * kSlower;
constexpr double kInitSeconds = kSlower > 1 ? 8 : 4;

enum class Way { Died, Stopped };
enum class Phase { BeforeRegistering, Registered, Split, Shrink, Call, Destroy, AfterGoodbye, Finalize };

/// What the ranks of a process do in a phase. `late`: they wait for the word before they do so; `goes`: it is the one
/// that goes. `excluded`: of shrink.
std::string script(Phase phase, bool late, bool goes, const std::string& excluded) {
  const std::string wait = late ? "wait\n" : "";
  switch (phase) {
    case Phase::BeforeRegistering:
      return goes || late ? "hold\nbarrier" : "barrier\nwait";  // the server's process is there for late ranks
    case Phase::Registered:
      return late ? "hold\nbarrier" : "tells\nbarrier\nwait";
    case Phase::Split:
      return "barrier\n" + wait + "split 0 0";
    case Phase::Shrink:
      return "barrier\n" + wait + "shrink " + excluded + (late ? "" : "\nwait");  // nor is it gone for the late ones
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

struct Cell {
  Way way;
  Phase phase;
  int victim;   ///< a process
  int threads;  ///< ranks in each process
  std::string transport;

  bool making() const { return phase == Phase::BeforeRegistering || phase == Phase::Registered; }
  /// One that is not there yet does not speak: its absence is told when joining times out.
  bool unknown() const { return phase == Phase::BeforeRegistering && victim != 0; }
  int excluded() const { return phase == Phase::Shrink ? 1 : -1; }
  /// The line whose result tells of it; −1: that of joining.
  int telling_line(bool late) const { return making() ? -1 : late ? 2 : 1; }
  std::vector<int> ranks_of(int process) const {
    std::vector<int> ranks;
    for (int i = 0; i < threads; ++i) ranks.push_back(process * threads + i);
    return ranks;
  }
};

/// A job in which a process goes.
class Play {
 public:
  explicit Play(const Cell& cell)
      : cell_(cell),
        job_({.transport = cell.transport,
              .ranks = kProcesses * cell.threads,
              .environment = fmt::format("TUTTI_TIMEOUT=20 TUTTI_INIT_TIMEOUT={} TUTTI_HEARTBEAT_TIMEOUT={}",
                                         kInitSeconds, kHeartbeatSeconds),
              .threads = cell.threads},
             [&](int rank) {
               const int process = rank / cell.threads;
               return script(cell.phase, process == kLate, process == cell.victim,
                             fmt::format("{}", fmt::join(cell.ranks_of(1), " ")));
             }) {}

  /// With pauses before the process goes and before the late one acts.
  void run(double before, double after) {
    if (!cell_.making()) await_line(0, [](int) { return true; });
    if (cell_.phase == Phase::Registered) await_line(kBeginsToJoin, [](int process) { return process != kLate; });
    // Nothing tells that ranks wait in the phase.
    std::this_thread::sleep_for(std::chrono::duration<double>(cell_.making() ? before * kSlower : before));
    gone_ = now();
    signal(cell_.victim, cell_.way == Way::Died ? SIGKILL : SIGSTOP);
    if (cell_.phase != Phase::AfterGoodbye) {
      await_line(cell_.telling_line(false), [&](int process) { return process != kLate && hears(process); });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(after));  // how late the late one is
    go(kLate);
    if (cell_.excluded() >= 0) signal(cell_.excluded(), SIGKILL);
    await_line(cell_.telling_line(true), [](int process) { return process == kLate; });
    signal(cell_.victim, SIGKILL);
    for (int process = 0; process < kLate && (cell_.making() || cell_.phase == Phase::Shrink); ++process) {
      if (hears(process)) go(process);
    }
    const auto results = job_.finish();
    EXPECT_EQ(job_.problem(), "");
    for (int process = 0; process < kProcesses; ++process) {
      int told = 0;
      for (const int rank : cell_.ranks_of(process)) {
        SCOPED_TRACE(fmt::format("rank {}", rank));
        if (hears(process)) told += check(process, results[static_cast<size_t>(rank)]) ? 1 : 0;
      }
      // Of the ranks of a process only the last one waits for the others when they leave.
      if (hears(process)) {
        EXPECT_GT(told, 0) << "no rank of process " << process << " was told";
      }
    }
  }

 private:
  bool hears(int process) const { return process != cell_.victim && process != cell_.excluded(); }
  void signal(int process, int number) { job_.child_of(process * cell_.threads).signal(number); }
  void go(int process) {
    for (const int rank : cell_.ranks_of(process)) job_.go(rank);
  }

  template <class Which>
  void await_line(int line, const Which& which) {
    for (int process = 0; process < kProcesses; ++process) {
      for (const int rank : cell_.ranks_of(process)) {
        if (which(process)) job_.await(rank, line);
      }
    }
  }

  /// False if the rank has left with success, as it may where another of its process waits.
  bool check(int process, const Story& story) const {
    const bool late = process == kLate;
    const auto line = std::find_if(story.begin(), story.end(),
                                   [&](const LineResult& result) { return result.line == cell_.telling_line(late); });
    EXPECT_NE(line, story.end()) << "it told nothing";
    if (line == story.end()) return true;
    if (cell_.phase == Phase::AfterGoodbye && cell_.victim != 0) {  // nobody needs it any more
      EXPECT_EQ(line->code, tuttiSuccess) << line->text;
      return true;
    }
    if (cell_.phase == Phase::AfterGoodbye && late && line->code == tuttiSuccess) return true;  // all others have left
    if (cell_.phase >= Phase::Destroy && cell_.threads > 1 && line->code == tuttiSuccess) return false;
    EXPECT_EQ(line->code, cell_.unknown() ? tuttiTimeout : tuttiPeerFailed) << line->text;
    bool named = false;
    for (const int rank : cell_.ranks_of(cell_.victim)) {
      const std::string name = fmt::format("{} {}", cell_.unknown() ? "missing: ranks" : "rank", rank);
      named = named || line->text.find(name) != std::string::npos;
    }
    EXPECT_TRUE(named) << line->text;
    const double within = cell_.unknown()          ? kInitSeconds + kDeathSeconds
                          : cell_.way == Way::Died ? kDeathSeconds
                                                   : kStopSeconds;
    if (!late) {
      EXPECT_LT(line->at - gone_, within) << line->text;
    }
    return true;
  }

  Cell cell_;
  Job job_;
  double gone_ = 0;
};

using Parameters = std::tuple<Way, Phase, int, int, std::string>;
class Edge : public testing::TestWithParam<Parameters> {};

TEST_P(Edge, IsTold) {
  const auto& [way, phase, victim, threads, transport] = GetParam();
  Play({way, phase, victim, threads, transport}).run(0.15, 0);
}

std::string name_of_cell(const testing::TestParamInfo<Parameters>& test) {
  constexpr const char* kWays[] = {"Died", "Stopped"};
  constexpr const char* kPhases[] = {"BeforeRegistering", "Registered", "InSplit",      "InShrink",
                                     "InACall",           "InDestroy",  "AfterGoodbye", "InFinalize"};
  const auto& [way, phase, victim, threads, transport] = test.param;
  return fmt::format("{}{}_process{}{}_{}", kWays[static_cast<int>(way)], kPhases[static_cast<int>(phase)], victim,
                     threads == 1 ? "" : "OfThreads", transport);
}

const auto kWays = testing::Values(Way::Died, Way::Stopped);
const auto kPhases = testing::Values(Phase::BeforeRegistering, Phase::Registered, Phase::Split, Phase::Shrink,
                                     Phase::Call, Phase::Destroy, Phase::AfterGoodbye, Phase::Finalize);
INSTANTIATE_TEST_SUITE_P(Of, Edge,
                         testing::Combine(kWays, kPhases, testing::Values(0, 2), testing::Values(1, 2),
                                          testing::Values("shm", "tcp")),
                         name_of_cell);

/// The server falls silent, and a rank ends before the others can be certain of it, as one does that noticed it a
/// moment earlier and gave up: what the others hear is the first cause.
TEST(FirstCause, IsTheServersSilenceAndNotTheEndOfARankThatGaveUp) {
  constexpr double kHeartbeat = 2 * kHeartbeatSeconds;
  Job job({"shm", 4, fmt::format("TUTTI_TIMEOUT=20 TUTTI_HEARTBEAT_TIMEOUT={}", kHeartbeat)},
          [](int) { return "barrier\nrepeat barrier"; });
  for (int rank = 0; rank < 4; ++rank) job.await(rank, 0);
  job.child_of(0).signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::duration<double>(0.8 * kHeartbeat));
  job.child_of(2).signal(SIGKILL);
  job.await(1, 1);
  job.await(3, 1);
  job.child_of(0).signal(SIGKILL);
  const auto results = job.finish();
  for (const size_t rank : {1U, 3U}) {
    const LineResult& last = results[rank].back();
    EXPECT_EQ(last.code, tuttiPeerFailed) << last.text;
    EXPECT_NE(last.text.find("rank 0"), std::string::npos) << last.text;
    EXPECT_EQ(last.text.find("rank 2"), std::string::npos) << last.text;
  }
}

/// Random cells at random moments.
TEST(RandomEdges, AreTold) {
  constexpr int kRuns = 300;
  for (uint64_t seed = 1; seed <= kRuns && !testing::Test::HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    const Cell cell{static_cast<Way>(pick(1)), static_cast<Phase>(pick(7)), 2 * pick(1), 1 + pick(1),
                    pick(1) == 0 ? "shm" : "tcp"};
    const double before = std::uniform_real_distribution<double>(0.1, 0.3)(random);
    SCOPED_TRACE(fmt::format("seed {}: way {}, phase {}, process {}, {} threads, {}", seed, static_cast<int>(cell.way),
                             static_cast<int>(cell.phase), cell.victim, cell.threads, cell.transport));
    Play(cell).run(before, std::uniform_real_distribution<double>(0, 0.2)(random));
  }
}

}  // namespace
}  // namespace tutti::fault
