#include "conformance/rank_group.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/watchdog.hpp"

namespace tutti::conformance {
namespace {

/// A board in memory that forked processes share.
class SharedBoard {
 public:
  SharedBoard() {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    board_ = new (memory) Board{};
  }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard() { munmap(board_, sizeof(Board)); }
  Board& operator*() const { return *board_; }

 private:
  Board* board_;
};

/// Sends the unique id from the first process to the others: a pipe, with one copy for each.
struct Handout {
  int ends[2] = {-1, -1};
  Handout() {
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  Handout(const Handout&) = delete;
  Handout& operator=(const Handout&) = delete;
  ~Handout() {
    close(ends[0]);
    close(ends[1]);
  }
};

bool obtain_id(const Conditions& conditions, int process, const Handout& handout, tuttiUniqueId& id) {
  if (process != 0) return read(handout.ends[0], &id, sizeof id) == sizeof id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return false;
  for (int other = 1; other < conditions.processes; ++other) {
    if (write(handout.ends[1], &id, sizeof id) != sizeof id) return false;
  }
  return true;
}

void play(const Conditions& conditions, const std::vector<Case>& cases, const tuttiUniqueId& id, int rank,
          Board& board) {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitRank(&comm, conditions.ranks, id, rank) == tuttiSuccess) {
    return conditions.sums ? run_sums(conditions.ranks, rank, comm, board)
                           : run_cases(cases, rank, comm, board, conditions.mapped);
  }
  report(board.findings[static_cast<size_t>(rank)], Collective::Barrier,
         fmt::format("rank {} could not join: {}", rank, tuttiGetLastError()));
}

/// A child process: some of the ranks, each on a thread.
int live(const Conditions& conditions, const std::vector<Case>& cases, int process, const Handout& handout,
         Board& board) {
  for (const auto& [name, value] : conditions.environment) setenv(name.c_str(), value.c_str(), 1);
  tuttiUniqueId id;
  if (!obtain_id(conditions, process, handout, id)) return 3;
  std::vector<std::thread> threads;
  const int begin = process * conditions.ranks / conditions.processes,
            end = (process + 1) * conditions.ranks / conditions.processes;
  for (int rank = begin; rank < end; ++rank) {
    threads.emplace_back([&, rank] { play(conditions, cases, id, rank, board); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace

std::vector<Findings> run(const Conditions& conditions, const std::vector<Case>& cases) {
  if (conditions.ranks > kMaxRanks) throw std::invalid_argument("too many ranks");
  const SharedBoard board;
  const Handout handout;
  std::vector<pid_t> children;
  for (int process = 0; process < conditions.processes; ++process) {
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) std::exit(live(conditions, cases, process, handout, *board));
    children.push_back(child);
  }
  auto& findings = (*board).findings;
  for (const test::Ending& ending : test::await_children(children, conditions.seconds)) {
    if (!ending.text.empty()) report(findings[0], Collective::Barrier, "a process of ranks ended: " + ending.text);
  }
  for (int rank = 0; rank < conditions.ranks; ++rank) {
    Findings& found = findings[static_cast<size_t>(rank)];
    if (found.finished == 0 && found.first[0] == 0)
      report(found, Collective::Barrier, fmt::format("rank {} did not get to its end", rank));
  }
  return {findings.begin(), findings.begin() + conditions.ranks};
}

}  // namespace tutti::conformance
