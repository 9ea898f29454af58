// The pipes between the driver (bench/vs_peers) and a program of the comparison.
//
// All programs are started first. Each rank blocks in a read of its own pipe, without using a processor, while others
// are measured. So all programs measure one cell of the table within a second or two, under the same load of the
// machine. The driver makes the pipes in one folder for each program:
//
//   turn.R    driver → rank R    open COLLECTIVE BYTES  ·  time MODE CALLS  ·  close  ·  end
//   said      ranks → driver     R word word …          one line for each line read, and "R ready" first
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace peers {

/// Binds this thread, and the threads it will start, to a core: rank r to the r-th of the allowed cores, modulo their
/// number.
inline void pin(int rank) {
  cpu_set_t allowed, mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int nth = rank % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && nth-- == 0) CPU_SET(core, &mine);
  }
  sched_setaffinity(0, sizeof mine, &mine);
}

/// The number of cores that this process may use.
inline int cores() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

/// Forks this process into `ranks` processes and returns this one's rank. All end with the first, and it ends when
/// another fails, so no rank waits for a dead one.
inline int fork_ranks(int ranks) {
  const pid_t first = getpid();
  std::signal(SIGCHLD, [](int) {
    int status = 0;
    while (waitpid(-1, &status, WNOHANG) > 0) {
      if (status != 0) _exit(3);
    }
  });
  for (int rank = 1; rank < ranks; ++rank) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != first) _exit(1);
      return rank;
    }
  }
  return 0;
}

/// The rank's two pipes.
class DriverPipes {
 public:
  DriverPipes(const std::string& folder, int rank)
      : rank_(rank),
        turn_(std::fopen((folder + "/turn." + std::to_string(rank)).c_str(), "re")),
        said_(open((folder + "/said").c_str(), O_WRONLY | O_CLOEXEC)) {
    if (turn_ == nullptr || said_ < 0) {
      std::fprintf(stderr, "rank %d: there are no pipes in %s; bench/vs_peers makes them\n", rank, folder.c_str());
      std::exit(2);
    }
  }
  DriverPipes(const DriverPipes&) = delete;
  DriverPipes& operator=(const DriverPipes&) = delete;
  ~DriverPipes() {
    std::fclose(turn_);
    close(said_);
  }

  /// Waits for the next line and returns its words; "end" when the driver is gone.
  std::vector<std::string> next() {
    char line[256];
    if (std::fgets(line, sizeof line, turn_) == nullptr) return {"end"};
    std::vector<std::string> words(1);
    for (const char* c = line; *c != '\0' && *c != '\n'; ++c) {
      if (*c == ' ') {
        words.emplace_back();
      } else {
        words.back() += *c;
      }
    }
    return words;
  }

  void say(const std::string& text) {
    const std::string line = std::to_string(rank_) + " " + text + "\n";  // short, so one write is atomic
    if (write(said_, line.data(), line.size()) < 0) std::exit(2);
  }

 private:
  int rank_;
  std::FILE* turn_;
  int said_;
};

}  // namespace peers
