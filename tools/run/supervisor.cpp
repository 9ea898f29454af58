// Supervises the ranks of a job from start to end.
//
// One thread, one poll(), and nothing else waits. Signals arrive as bytes of a signalfd; ranks' output arrives through
// pipes and pseudo-terminals, in one epoll set for each stream that it goes to; their ends through pidfds in another
// set, which keeps the order of their deaths (waitid() does not). What the reader of our output does not take is kept,
// and no more is read from the ranks meanwhile.
//
// Once a rank has failed, the others have `grace` seconds to end by themselves, with their own errors. Then they get
// SIGTERM, then SIGKILL with all processes of their groups; with `keep_going` they are left alone. A signal to the
// launcher is forwarded to all ranks and starts the same countdown. All this applies from the first rank's start:
// events are handled between two starts, and no further rank is started once the job must end.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/guardian.hpp"
#include "tools/run/host_signals.hpp"
#include "tools/run/job.hpp"
#include "tools/run/limits.hpp"
#include "tools/run/rank_process.hpp"
#include "tools/run/signals.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {
namespace {

constexpr double kFromTermToKill = 2;  // seconds
constexpr double kLastWords = 1;       // seconds for output that arrives after a rank's end
// Connections to one host that are being made at the same time: beyond ten, an sshd refuses some (MaxStartups), and one
// more is for signals.
constexpr int kConnectingToOne = 8;
constexpr size_t kToldLater = 8;  // number of later failures that are reported one by one

/// The environment variable of the job's processes only.
std::string mark_of(const Job& job) { return "TUTTI_JOB=" + job.name; }

/// The job's demand, limited by what is available.
Demand fitting(const Job& job) {
  Demand demand = demand_of(job);
  check_fits(demand, allowance());
  return demand;
}

class Supervisor {
 public:
  explicit Supervisor(const Job& job) : job_(job), files_(fitting(job)), guardian_(mark_of(job)) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of ranks become our children, and are killed at the end
  }

  int run() {
    start();
    while (running() > 0) turn(-1);
    host_signals_.finish();
    kill_children(guardian_.pid());
    const Deadline until = Deadline::in(kLastWords);
    while (outputs_open() && (awaits_reader() || !until.passed())) turn(kLastWords);
    for (RankProcess& rank : ranks_) rank.close_output();
    tell_the_rest();
    while (awaits_reader()) turn(-1);
    const bool cut_short = ranks_.size() < job_.ranks.size() || streams_.blocked();
    if (job_.keep_going && succeeded_ && !cut_short && interrupted_by_ == 0) return 0;
    return first_status_ == 0 && cut_short ? 128 + interrupted_by_ : first_status_;
  }

 private:
  void start();
  void say(const std::string& text) { streams_.err().put(job_.speaker + ": " + text + "\n"); }
  void turn(double at_most);
  void start_rank(int rank);
  void await_turn_of(const std::string& host);
  void watch(const RankProcess& rank);
  void pass_output_on();
  void reap_ranks();
  void reap_others();
  void note_end(RankProcess& rank, int wait_status);
  void take_signal(int signal);
  void stop_and_continue();
  void escalate();
  void replace_guardian();
  void tell_the_rest();
  void end_without_output(int status);
  void send_all(int signal) {
    for (const RankProcess& rank : ranks_) rank.send(signal);
  }
  void count_down(double seconds, int then) {
    deadline_ = Deadline::in(seconds);
    next_signal_ = then;
  }
  int running() const {
    return static_cast<int>(
        std::count_if(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank.ended(); }));
  }
  bool outputs_open() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.output_open(); });
  }
  /// The reader of our output has not taken all of it, and no signal tells us to end without that.
  bool awaits_reader() const { return streams_.blocked() && interrupted_by_ == 0; }
  /// True if it will end, whatever the ranks do.
  bool ending() const { return interrupted_by_ != 0 || (first_status_ != 0 && !job_.keep_going); }
  std::string running_ranks() const;

  const Job& job_;
  SignalQueue signals_;
  OpenFiles files_;
  Guardian guardian_;
  Outputs streams_;
  HostSignals host_signals_{job_.launcher, {signals_.before(), files_.before()}};
  std::deque<RankProcess> ranks_;
  Fd ends_{epoll_create1(EPOLL_CLOEXEC)};
  // Ranks' output to our standard output and to our standard error. Nothing is read while the stream is blocked.
  struct {
    const Sink* to;
    Fd ready{epoll_create1(EPOLL_CLOEXEC)};
  } outputs_[2] = {{&streams_.out()}, {&streams_.err()}};
  std::vector<Fd> pidfds_;          // [rank]
  int first_status_ = 0;            // of the first rank that failed
  bool succeeded_ = false;          // some rank ended with status 0
  std::vector<std::string> later_;  // descriptions of later failures, at most kToldLater
  size_t failed_later_ = 0;
  int interrupted_by_ = 0;    // the signal sent to the launcher
  bool output_lost_ = false;  // our own output accepts no more
  std::optional<Deadline> deadline_;
  int next_signal_ = 0;  // to be sent at the deadline
};

/// The source of rank 0's input: a terminal only while we are in its foreground, since reading it would otherwise stop
/// us.
int readable_stdin(const Job& job) {
  if (!job.feed_stdin || fcntl(STDIN_FILENO, F_GETFD) < 0) return -1;
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
}

void Supervisor::start() {
  try {
    for (int rank = 0; rank < static_cast<int>(job_.ranks.size()) && !ending(); ++rank) {
      await_turn_of(job_.ranks[static_cast<size_t>(rank)].host);
      if (ending()) break;
      start_rank(rank);
      turn(0);
    }
  } catch (...) {
    send_all(SIGKILL);
    kill_children(guardian_.pid());
    throw;
  }
  if (ranks_.size() < job_.ranks.size() && !output_lost_) {
    say(fmt::format("{} of {} ranks had been started; no more will be", ranks_.size(), job_.ranks.size()));
  }
}

/// Waits while too many connections to `host` are being made.
void Supervisor::await_turn_of(const std::string& host) {
  if (host.empty()) return;
  const auto connecting = [&] {
    return std::count_if(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
      return rank.host() == host && !rank.ended() && !rank.begun();
    });
  };
  while (connecting() >= kConnectingToOne && !ending()) turn(-1);
}

void Supervisor::start_rank(int rank) {
  const RankProcess& started = ranks_.emplace_back(job_, rank, Inherited{signals_.before(), files_.before()},
                                                   rank == 0 ? readable_stdin(job_) : -1, streams_, host_signals_);
  guardian_.watch(started.pid());
  watch(started);
  if (!job_.verbose) return;
  const Placement& placement = job_.ranks[static_cast<size_t>(rank)];
  say(fmt::format("started {}{}", started.name(), placement.cpus ? " on processors " + to_text(*placement.cpus) : ""));
}

/// Waits for events, at most until the deadline, and handles them.
void Supervisor::turn(double at_most) {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}, {ends_.get(), POLLIN, 0}};
  for (const auto& output : outputs_) {
    if (!output.to->blocked()) fds.push_back({output.ready.get(), POLLIN, 0});
  }
  streams_.wait_for(fds);
  for (const RankProcess& rank : ranks_) rank.wait_for(fds);
  int timeout = at_most < 0 ? -1 : static_cast<int>(at_most * 1000);
  if (deadline_) timeout = deadline_->poll_ms(timeout < 0 ? 1 << 30 : timeout);
  poll(fds.data(), fds.size(), timeout);
  for (RankProcess& rank : ranks_) rank.feed(fds);
  pass_output_on();
  while (const int signal = signals_.next()) take_signal(signal);
  reap_ranks();
  reap_others();
  if (deadline_ && deadline_->passed()) escalate();
}

void Supervisor::pass_output_on() {
  bool taken = streams_.pump();
  for (const auto& output : outputs_) {
    epoll_event ready[64];
    const int number = output.to->blocked() ? 0 : epoll_wait(output.ready.get(), ready, std::size(ready), 0);
    for (int i = 0; i < number; ++i) {
      RankProcess& rank = ranks_[ready[i].data.u32];
      taken = rank.drain() && taken;
      if (rank.begun() && !rank.host().empty()) host_signals_.open(rank.host());
    }
  }
  if (taken || output_lost_) return;
  if (streams_.error() != EPIPE) say(fmt::format("its output cannot be written: {}", std::strerror(streams_.error())));
  end_without_output(streams_.error() == EPIPE ? 128 + SIGPIPE : 1);
}

/// Where a pipe's reader has closed it: silently, like a program that writes to such a pipe.
void Supervisor::end_without_output(int status) {
  output_lost_ = true;
  first_status_ = status;
  send_all(SIGTERM);
  count_down(kFromTermToKill, SIGKILL);
}

void Supervisor::take_signal(int signal) {
  if (signal == SIGCHLD) return;  // it only wakes us
  if (signal == SIGTSTP) return stop_and_continue();
  if (signal == SIGWINCH) {
    for (const RankProcess& rank : ranks_) rank.resize();
    return;
  }
  if (signal == SIGUSR1 || signal == SIGUSR2) return send_all(signal);
  if (interrupted_by_ != 0 && signal == SIGINT) {  // Ctrl-C again: kill at once
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

/// Watches a rank's end in `ends_` and its output in `outputs_`.
void Supervisor::watch(const RankProcess& rank) {
  pidfds_.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, rank.pid(), 0)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(rank.rank());
  if (!pidfds_.back() || epoll_ctl(ends_.get(), EPOLL_CTL_ADD, pidfds_.back().get(), &event) != 0) {
    throw_error(Code::SystemError, "cannot watch rank {}: {}; Linux 5.3 or newer is needed", rank.rank(),
                std::strerror(errno));
  }
  for (const auto& [fd, to] : rank.output_fds()) {
    const auto& output = outputs_[to == outputs_[0].to ? 0 : 1];
    if (epoll_ctl(output.ready.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_error(Code::SystemError, "rank {}: its output cannot be watched: {}", rank.rank(), std::strerror(errno));
    }
  }
}

void Supervisor::reap_ranks() {
  epoll_event ended[64];
  const int number = epoll_wait(ends_.get(), ended, std::size(ended), 0);
  for (int i = 0; i < number; ++i) {
    RankProcess& rank = ranks_[ended[i].data.u32];
    // The rest of its group is killed too. Only then may its number be reused.
    kill(-rank.pid(), SIGKILL);
    guardian_.forget(rank.pid());
    int wait_status = 0;
    waitpid(rank.pid(), &wait_status, 0);
    pidfds_[ended[i].data.u32].reset();
    note_end(rank, wait_status);
  }
}

/// Reaps orphans of ranks, and short connections that carried signals.
void Supervisor::reap_others() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const bool is_rank = std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
      return !rank.ended() && rank.pid() == info.si_pid;
    });
    if (is_rank) return;  // handled by its own event
    waitpid(info.si_pid, nullptr, 0);
    if (info.si_pid == guardian_.pid()) replace_guardian();
  }
}

/// The guardian was killed, possibly just before the launcher will be.
void Supervisor::replace_guardian() {
  std::vector<pid_t> groups;
  for (const RankProcess& rank : ranks_) {
    if (!rank.ended()) groups.push_back(rank.pid());
  }
  try {
    guardian_.replace(groups);
  } catch (const Error& error) {
    say(fmt::format("without a guardian from now on ({}): kill -9 of this process may leave some behind",
                    error.what()));
  }
}

void Supervisor::note_end(RankProcess& rank, int wait_status) {
  rank.drain();  // its own output precedes our message
  rank.mark_ended(wait_status);
  succeeded_ = succeeded_ || rank.status() == 0;
  if (rank.status() == 0) return;
  // It wrote to our output itself, and the reader, perhaps `head`, has closed that.
  const bool lost_reader = !job_.prefix && rank.killed_by(SIGPIPE) && reader_gone(STDOUT_FILENO);
  if (first_status_ == 0 && lost_reader) return end_without_output(rank.status());
  if (first_status_ != 0) {
    if (output_lost_) return;
    ++failed_later_;
    if (later_.size() < kToldLater) later_.push_back(fmt::format("{}: {}", rank.name(), rank.what_became()));
    return;
  }
  first_status_ = rank.status();
  if (interrupted_by_ != 0 && rank.killed_by(interrupted_by_)) return;  // that was requested
  say(fmt::format("{}: {}", rank.name(), rank.what_became()));
  if (running() > 0 && !deadline_ && !job_.keep_going) count_down(job_.grace, SIGTERM);
}

void Supervisor::escalate() {
  const int signal = next_signal_;
  deadline_.reset();
  if (running() == 0) return;
  if (signal == SIGTERM) {
    say(fmt::format("{} s later still running, and ended now: rank {} (--grace gives more time)", job_.grace,
                    running_ranks()));
    count_down(kFromTermToKill, SIGKILL);
  }
  send_all(signal);
}

/// "0-3, 7".
std::string Supervisor::running_ranks() const {
  std::string list;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].ended()) continue;
    const size_t first = rank;
    while (rank + 1 < ranks_.size() && !ranks_[rank + 1].ended()) ++rank;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", first);
    if (rank > first) list += fmt::format("{}{}", rank == first + 1 ? ", " : "-", rank);
  }
  return list;
}

void Supervisor::tell_the_rest() {
  if (interrupted_by_ != 0) {
    say(fmt::format("ended by signal {} ({})", interrupted_by_, strsignal(interrupted_by_)));
  } else if (!later_.empty()) {
    const size_t more = failed_later_ - later_.size();
    say(fmt::format("after it: {}{}", fmt::join(later_, "; "), more > 0 ? fmt::format("; and {} more", more) : ""));
  }
}

}  // namespace

int run_job(const Job& job) {
  try {
    return Supervisor(job).run();
  } catch (const CannotRun& error) {
    fmt::print(stderr, "{}: {}\n", job.speaker, error.what());
    return error.status();
  }
}

}  // namespace tutti::tools
