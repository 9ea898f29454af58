// Watches over the ranks of a job from start to end.
//
// One thread, one poll(): signals come as bytes of a signalfd, ranks' output through pipes, their ends through pidfds
// in an epoll set, which keeps them in the order in which they came: waitid() would not tell who died first. Once a
// rank has failed the others have `grace` seconds to end by themselves, with errors of their own; then they are asked
// (SIGTERM), then killed with all processes of their groups. A signal that the launcher gets goes to all ranks and
// starts the same countdown.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/secret.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/guardian.hpp"
#include "tools/run/job.hpp"
#include "tools/run/rank_process.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFromTermToKill = 2;  // seconds
constexpr double kLastWords = 1;       // seconds for output that comes after a rank's end

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void say(const Job& job, const std::string& text) { write_all(STDERR_FILENO, job.speaker + ": " + text + "\n"); }

/// Signals taken as bytes instead of interruptions, for the life of this object.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
      sigaddset(&taken, signal);
    }
    sigprocmask(SIG_BLOCK, &taken, &before_);
    old_pipe_ = signal(SIGPIPE, SIG_IGN);
    queue_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!queue_) throw_error(Code::SystemError, "signalfd: {}", std::strerror(errno));
  }
  ~SignalQueue() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    signal(SIGPIPE, old_pipe_);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return queue_.get(); }
  const sigset_t& before() const { return before_; }
  /// 0: none.
  int next() {
    signalfd_siginfo info{};
    return read(queue_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  Fd queue_;
};

class Supervisor {
 public:
  explicit Supervisor(const Job& job) : job_(job) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // what ranks leave behind becomes ours, and is killed at the end
  }

  int run() {
    start();
    while (running() > 0) turn(-1);
    end_descendants();
    const auto until = in_seconds(kLastWords);
    while (outputs_open() && Clock::now() < until) turn(kLastWords);
    for (RankProcess& rank : ranks_) rank.close_output();
    tell_the_rest();
    return first_status_;
  }

 private:
  void start();
  void turn(double at_most);
  void watch_end(int rank, pid_t pid);
  void reap_ranks();
  void reap_others();
  void note_end(RankProcess& rank, int wait_status);
  void take_signal(int signal);
  void stop_and_continue();
  void escalate();
  void end_descendants();
  void tell_the_rest() const;
  void send_all(int signal) {
    for (const RankProcess& rank : ranks_) rank.send(signal);
  }
  void count_down(double seconds, int then) {
    deadline_ = in_seconds(seconds);
    next_signal_ = then;
  }
  int running() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank.ended(); }));
  }
  bool outputs_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.output_open(); });
  }
  std::vector<int> running_ranks() const {
    std::vector<int> list;
    for (const RankProcess& rank : ranks_) {
      if (!rank.ended()) list.push_back(rank.rank());
    }
    return list;
  }

  const Job& job_;
  SignalQueue signals_;
  Guardian guardian_;
  std::deque<RankProcess> ranks_;
  Fd ends_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Fd> pidfds_;          // [rank]
  int first_status_ = 0;            // of the first rank that failed
  std::vector<std::string> later_;  // what became of those that failed after it
  int interrupted_by_ = 0;          // the signal that the launcher got
  bool reader_gone_ = false;        // our own output takes no more
  std::optional<Clock::time_point> deadline_;
  int next_signal_ = 0;  // to be sent at the deadline
};

/// What rank 0 may read: a terminal only while we are in its foreground, else reading it would stop us.
int readable_stdin(const Job& job) {
  if (!job.feed_stdin || fcntl(STDIN_FILENO, F_GETFD) < 0) return -1;
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
}

void Supervisor::start() {
  for (int rank = 0; rank < static_cast<int>(job_.ranks.size()); ++rank) {
    try {
      ranks_.emplace_back(job_, rank, signals_.before(), rank == 0 ? readable_stdin(job_) : -1);
      guardian_.watch(ranks_.back().pid());
      watch_end(rank, ranks_.back().pid());
    } catch (...) {
      send_all(SIGKILL);
      end_descendants();
      throw;
    }
    if (!job_.verbose) continue;
    const Placement& placement = job_.ranks[static_cast<size_t>(rank)];
    say(job_, fmt::format("started {}{}", ranks_.back().name(),
                          placement.cpus ? " on processors " + to_text(*placement.cpus) : ""));
  }
}

/// Waits until something happens, at most to the deadline, and deals with it.
void Supervisor::turn(double at_most) {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}, {ends_.get(), POLLIN, 0}};
  for (const RankProcess& rank : ranks_) rank.wait_for(fds);
  int timeout = at_most < 0 ? -1 : static_cast<int>(at_most * 1000);
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<int64_t>(left, 0, timeout < 0 ? INT32_MAX : timeout));
  }
  poll(fds.data(), fds.size(), timeout);
  for (RankProcess& rank : ranks_) {
    if (rank.pump(fds) || reader_gone_) continue;
    reader_gone_ = true;  // as a program that writes into a closed pipe: the job ends, quietly
    first_status_ = 128 + SIGPIPE;
    send_all(SIGTERM);
    count_down(kFromTermToKill, SIGKILL);
  }
  while (const int signal = signals_.next()) take_signal(signal);
  reap_ranks();
  reap_others();
  if (deadline_ && Clock::now() >= *deadline_) escalate();
}

void Supervisor::take_signal(int signal) {
  if (signal == SIGCHLD) return;  // it only wakes us
  if (signal == SIGTSTP) return stop_and_continue();
  if (signal == SIGUSR1 || signal == SIGUSR2) return send_all(signal);
  if (interrupted_by_ != 0 && signal == SIGINT) {  // Ctrl-C again: at once
    send_all(SIGKILL);
    return;
  }
  interrupted_by_ = signal;
  send_all(signal);
  count_down(job_.grace, SIGTERM);
}

void Supervisor::stop_and_continue() {
  send_all(SIGSTOP);
  raise(SIGSTOP);
  send_all(SIGCONT);
}

/// Has the end of a rank reported by `ends_`.
void Supervisor::watch_end(int rank, pid_t pid) {
  pidfds_.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(rank);
  if (!pidfds_.back() || epoll_ctl(ends_.get(), EPOLL_CTL_ADD, pidfds_.back().get(), &event) != 0) {
    throw_error(Code::SystemError, "rank {} cannot be watched: {}; Linux 5.3 or newer is needed", rank,
                std::strerror(errno));
  }
}

void Supervisor::reap_ranks() {
  epoll_event ended[64];
  const int number = epoll_wait(ends_.get(), ended, std::size(ended), 0);
  for (int i = 0; i < number; ++i) {
    RankProcess& rank = ranks_[ended[i].data.u32];
    // The rest of its group goes with it. Only then is its number free to be used again.
    kill(-rank.pid(), SIGKILL);
    guardian_.forget(rank.pid());
    int wait_status = 0;
    waitpid(rank.pid(), &wait_status, 0);
    pidfds_[ended[i].data.u32].reset();
    note_end(rank, wait_status);
  }
}

/// What became ours when ranks left it, and short connections that carried signals.
void Supervisor::reap_others() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
      return !rank.ended() && rank.pid() == info.si_pid;
    });
    if (is_rank) return;  // its turn comes
    waitpid(info.si_pid, nullptr, 0);
  }
}

void Supervisor::note_end(RankProcess& rank, int wait_status) {
  rank.drain();  // its own last words come before ours
  rank.mark_ended(wait_status);
  if (rank.status() == 0) return;
  if (first_status_ != 0) {
    if (!reader_gone_) later_.push_back(fmt::format("{}: {}", rank.name(), rank.what_became()));
    return;
  }
  first_status_ = rank.status();
  if (interrupted_by_ != 0 && rank.killed_by(interrupted_by_)) return;  // that is what was asked for
  say(job_, fmt::format("{}: {}", rank.name(), rank.what_became()));
  if (running() > 0 && !deadline_) count_down(job_.grace, SIGTERM);
}

void Supervisor::escalate() {
  const int signal = next_signal_;
  deadline_.reset();
  if (running() == 0) return;
  if (signal == SIGTERM) {
    say(job_, fmt::format("{} s later still running, and ended now: rank {} (--grace gives more time)", job_.grace,
                          fmt::join(running_ranks(), ", ")));
    count_down(kFromTermToKill, SIGKILL);
  }
  send_all(signal);
}

/// Kills and reaps all that is left below us: what ranks started and left.
void Supervisor::end_descendants() {
  for (;;) {
    std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
    int found = 0;
    for (pid_t child = 0; children >> child;) {
      if (child == guardian_.pid()) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      ++found;
    }
    if (found == 0) return;
  }
}

void Supervisor::tell_the_rest() const {
  if (interrupted_by_ != 0) {
    say(job_, fmt::format("ended by signal {} ({})", interrupted_by_, strsignal(interrupted_by_)));
  } else if (!later_.empty()) {
    say(job_, fmt::format("after it: {}", fmt::join(later_, "; ")));
  }
}

}  // namespace

std::vector<std::string> rank_environment(const Job& job, int rank) {
  const Placement& placement = job.ranks[static_cast<size_t>(rank)];
  std::vector<std::string> variables;
  const auto set = [&variables](const char* name, const auto& value) {
    variables.push_back(fmt::format("{}={}", name, value));
  };
  set("TUTTI_RANK", rank);
  set("TUTTI_SIZE", job.ranks.size());
  set("TUTTI_LOCAL_RANK", placement.local_rank);
  set("TUTTI_LOCAL_SIZE", placement.local_size);
  set("TUTTI_JOB", job.name);
  set("TUTTI_KEY", job.secret);
  if (!job.root.empty()) {
    set("TUTTI_ROOT_ADDR", job.root);
    set("TUTTI_PORT", job.port);
  }
  return variables;
}

void name_job(Job& job) {
  job.name = random_hex(16);
  job.secret = env().key.empty() ? random_hex(32) : env().key;
}

int run_job(const Job& job) {
  try {
    return Supervisor(job).run();
  } catch (const CannotRun& error) {
    say(job, error.what());
    return error.status();
  }
}

}  // namespace tutti::tools
