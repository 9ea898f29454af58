// How ranks end, and what the launcher does then.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "tools/run/supervisor.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {

constexpr size_t kToldLater = 8;  // number of later failures that are reported one by one

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
  if (rank.status() == 0) {
    if (job_.restarts != nullptr) job_.restarts->has_ended(rank.rank());
    return;
  }
  // It wrote to our output itself, and the reader, perhaps `head`, has closed that.
  const bool lost_reader = !job_.prefix && rank.killed_by(SIGPIPE) && reader_gone(STDOUT_FILENO);
  if (first_status_ == 0 && lost_reader) return end_without_output(rank.status());
  if (!lost_reader && goes_on_after(rank)) return;
  if (first_status_ != 0) {
    if (output_lost_) return;
    ++failed_later_;
    if (later_.size() < kToldLater) later_.push_back(fmt::format("{}: {}", rank.name(), rank.what_became()));
    return;
  }
  first_status_ = rank.status();
  if (interrupted_by_ != 0 && rank.killed_by(interrupted_by_)) return;  // that was requested
  say(fmt::format("{}: {}{}", rank.name(), rank.what_became(),
                  was_refused_ ? "; with this status it refuses its arguments, so it is not started again" : ""));
  if (running() > 0 && !deadline_ && !job_.keep_going) count_down(job_.grace, SIGTERM);
}

void Supervisor::escalate() {
  const int signal = next_signal_;
  deadline_.reset();
  if (running() == 0) return;
  if (signal == SIGTERM) {
    say(fmt::format("{} s later still running, and ended now: rank {} ({} gives more time)", counted_, running_ranks(),
                    counted_ == job_.grace ? "--grace" : "--notice"));
    count_down(kFromTermToKill, SIGKILL);
  }
  send_all(signal);
}

/// "0-3, 7".
std::string Supervisor::running_ranks() const {
  std::vector<int> running;
  for (const RankProcess& rank : ranks_) {
    if (!rank.ended()) running.push_back(rank.rank());
  }
  std::sort(running.begin(), running.end());
  std::string list;
  for (size_t i = 0; i < running.size(); ++i) {
    const size_t first = i;
    while (i + 1 < running.size() && running[i + 1] == running[i] + 1) ++i;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", running[first]);
    if (i > first) list += fmt::format("{}{}", i == first + 1 ? ", " : "-", running[i]);
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

/// True if the rank's failure does not end the job: it is started again, or the job does without it.
bool Supervisor::goes_on_after(const RankProcess& rank) {
  if (job_.restarts == nullptr || output_lost_) return false;
  if (ending() || succeeded_) {  // a rank that has ended well has left nothing to go on with
    job_.restarts->has_ended(rank.rank());
    return false;
  }
  const int to_come = static_cast<int>(job_.ranks.size() - started_) + job_.restarts->due();
  const auto then = job_.restarts->after_failure(rank.rank(), running() + to_come, rank.refused());
  was_refused_ = rank.refused();
  if (then == Restarts::Then::End) return false;
  say(fmt::format("{}: {}; {}", rank.name(), rank.what_became(), job_.restarts->words(then, rank.refused())));
  return true;
}

/// Starts ranks again whose time has come. One that cannot be started has failed.
void Supervisor::restart_ranks() {
  if (job_.restarts == nullptr) return;
  while (const auto rank = job_.restarts->take_due()) {
    if (ending()) {
      job_.restarts->has_ended(*rank);
      continue;
    }
    try {
      start_rank(*rank, -1);
    } catch (const Error& error) {
      say(fmt::format("rank {} cannot be started again: {}", *rank, error.what()));
      if (job_.restarts->after_failure(*rank, running() + job_.restarts->due()) != Restarts::Then::End) continue;
      first_status_ = 1;
      count_down(job_.grace, SIGTERM);
    }
  }
}

/// Ranks whose processes are silent: their hosts are lost, or they are stopped.
void Supervisor::end_lost_ranks() {
  for (const int lost : job_.restarts->take_lost()) {
    for (const RankProcess& rank : ranks_) {
      if (rank.rank() != lost || rank.ended()) continue;
      say(fmt::format("{} does not answer, and is killed", rank.name()));
      rank.send(SIGKILL);
    }
  }
}

}  // namespace tutti::tools
