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
#include "tools/run/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/format.hpp"
#include "tools/run/descendants.hpp"
#include "tools/run/spawn.hpp"

namespace tutti::tools {
namespace {

constexpr double kLastWords = 1;  // seconds for output that arrives after a rank's end
// Connections to one host that are being made at the same time: beyond ten, an sshd refuses some (MaxStartups), and one
// more is for signals.
constexpr int kConnectingToOne = 8;

/// The environment variable of the job's processes only.
std::string mark_of(const Job& job) { return "TUTTI_JOB=" + job.name; }

/// The job's demand, limited by what is available.
Demand fitting(const Job& job) {
  Demand demand = demand_of(job);
  check_fits(demand, allowance());
  return demand;
}

/// The source of rank 0's input: a terminal only while we are in its foreground, since reading it would otherwise stop
/// us.
int readable_stdin(const Job& job) {
  if (!job.feed_stdin || fcntl(STDIN_FILENO, F_GETFD) < 0) return -1;
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp() ? STDIN_FILENO : -1;
}

}  // namespace

Supervisor::Supervisor(const Job& job) : job_(job), files_(fitting(job)), guardian_(mark_of(job)) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of ranks become our children, and are killed at the end
}

int Supervisor::run() {
  start();
  while (running() > 0 || (job_.restarts != nullptr && job_.restarts->due() > 0)) turn(-1);
  host_signals_.finish();
  kill_children(guardian_.pid());
  const Deadline until = Deadline::in(kLastWords);
  while (outputs_open() && (awaits_reader() || !until.passed())) turn(kLastWords);
  for (RankProcess& rank : ranks_) rank.close_output();
  tell_the_rest();
  while (awaits_reader()) turn(-1);
  const bool cut_short = started_ < job_.ranks.size() || streams_.blocked();
  if (job_.keep_going && succeeded_ && !cut_short && interrupted_by_ == 0) return 0;
  return first_status_ == 0 && cut_short ? 128 + interrupted_by_ : first_status_;
}

void Supervisor::start() {
  try {
    for (int rank = 0; rank < static_cast<int>(job_.ranks.size()) && !ending(); ++rank) {
      await_turn_of(job_.ranks[static_cast<size_t>(rank)].host);
      if (ending()) break;
      start_rank(rank, rank == 0 ? readable_stdin(job_) : -1);
      ++started_;
      turn(0);
    }
  } catch (...) {
    send_all(SIGKILL);
    kill_children(guardian_.pid());
    throw;
  }
  for (size_t rank = started_; job_.restarts != nullptr && rank < job_.ranks.size(); ++rank) {
    job_.restarts->has_ended(static_cast<int>(rank));  // the others do not wait for it
  }
  if (started_ < job_.ranks.size() && !output_lost_) {
    say(fmt::format("{} of {} ranks had been started; no more will be", started_, job_.ranks.size()));
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

void Supervisor::start_rank(int rank, int stdin_source) {
  const RankProcess& started = ranks_.emplace_back(job_, rank, Inherited{signals_.before(), files_.before()},
                                                   stdin_source, streams_, host_signals_);
  guardian_.watch(started.pid());
  watch(started);
  if (job_.restarts != nullptr) job_.restarts->has_started(rank);
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
  if (job_.restarts != nullptr) fds.push_back({job_.restarts->fd(), POLLIN, 0});
  int timeout = at_most < 0 ? -1 : static_cast<int>(at_most * 1000);
  if (deadline_) timeout = deadline_->poll_ms(timeout < 0 ? 1 << 30 : timeout);
  if (const auto due = job_.restarts == nullptr ? std::nullopt : job_.restarts->next_due()) {
    timeout = Deadline::in(*due).poll_ms(timeout < 0 ? 1 << 30 : timeout);
  }
  poll(fds.data(), fds.size(), timeout);
  for (RankProcess& rank : ranks_) rank.feed(fds);
  pass_output_on();
  while (const int signal = signals_.next()) take_signal(signal);
  if (job_.restarts != nullptr) end_lost_ranks();
  reap_ranks();
  reap_others();
  restart_ranks();
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
  const bool is_notice = signal == SIGTERM && job_.restarts != nullptr && interrupted_by_ == 0;
  interrupted_by_ = signal;
  if (is_notice) {
    job_.restarts->announce_end(job_.notice);
    say(fmt::format("SIGTERM: the ranks have {} s to end by themselves (--notice gives more time)", job_.notice));
    return count_down(job_.notice, SIGTERM);
  }
  send_all(signal);
  count_down(job_.saves ? job_.notice : job_.grace, SIGTERM);
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
  event.data.u32 = static_cast<uint32_t>(ranks_.size() - 1);
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

int run_job(const Job& job) {
  try {
    return Supervisor(job).run();
  } catch (const CannotRun& error) {
    fmt::print(stderr, "{}: {}\n", job.speaker, error.what());
    return error.status();
  }
}

}  // namespace tutti::tools
