#include "tools/run/ask.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "tools/run/limits.hpp"
#include "tools/run/rank_process.hpp"
#include "tools/run/signals.hpp"

namespace tutti::tools {
namespace {

/// Connections to other hosts that are being made at the same time.
constexpr int kConnecting = 64;

class Asking {
 public:
  Asking(const Job& job, double seconds)
      : job_(job), files_(demand_of(job)), until_(Deadline::in(seconds)), answers_(job.ranks.size()) {
    check_fits(demand_of(job), allowance());
  }

  std::vector<Answer> run() {
    try {
      for (int rank = 0; rank < static_cast<int>(job_.ranks.size()); ++rank) {
        while (connecting() >= kConnecting) turn();
        start(rank);
      }
      while (running() > 0) turn();
    } catch (...) {
      end_all();
      throw;
    }
    host_signals_.finish();
    return std::move(answers_);
  }

 private:
  struct Asked {
    explicit Asked(Answer& answer) : outputs(&answer.out, &answer.err) {}
    Outputs outputs;
    std::optional<RankProcess> process;
    Fd end;
  };

  void start(int rank) {
    Asked& asked = asked_.emplace_back(answers_[static_cast<size_t>(rank)]);
    asked.process.emplace(job_, rank, Inherited{signals_.before(), files_.before()}, -1, asked.outputs, host_signals_);
    asked.end = Fd(static_cast<int>(syscall(SYS_pidfd_open, asked.process->pid(), 0)));
    if (!asked.end)
      throw_error(Code::SystemError, "pidfd_open: {}; Linux 5.3 or newer is needed", std::strerror(errno));
  }

  /// Waits for events, at most until the time is up, and handles them.
  void turn() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    for (const Asked& asked : asked_) {
      if (asked.process->ended()) continue;
      fds.push_back({asked.end.get(), POLLIN, 0});
      for (const auto& [fd, sink] : asked.process->output_fds()) fds.push_back({fd, POLLIN, 0});
      asked.process->wait_for(fds);
    }
    poll(fds.data(), fds.size(), late_ ? -1 : until_.poll_ms(1 << 30));
    for (Asked& asked : asked_) {
      if (asked.process->ended()) continue;
      asked.process->feed(fds);
      asked.process->drain();
      reap(asked);
    }
    if (!late_ && until_.passed()) stop_the_late();
    while (const int signal = signals_.next()) {
      if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) {
        throw Interrupted(signal);
      }
    }
  }

  void reap(Asked& asked) {
    int wait_status = 0;
    if (waitpid(asked.process->pid(), &wait_status, WNOHANG) <= 0) return;
    kill(-asked.process->pid(), SIGKILL);  // the rest of its group
    asked.process->drain();
    asked.process->mark_ended(wait_status);
    asked.process->close_output();
    Answer& answer = answers_[static_cast<size_t>(asked.process->rank())];
    answer.status = asked.process->status();
    answer.became = asked.process->what_became();
  }

  void stop_the_late() {
    late_ = true;
    for (const Asked& asked : asked_) {
      if (!asked.process->ended()) answers_[static_cast<size_t>(asked.process->rank())].late = true;
    }
    send_all(SIGKILL);
  }

  void send_all(int signal) {
    for (const Asked& asked : asked_) {
      if (asked.process) asked.process->send(signal);
    }
  }

  void end_all() {
    send_all(SIGKILL);
    for (Asked& asked : asked_) {
      if (asked.process && !asked.process->ended()) waitpid(asked.process->pid(), nullptr, 0);
    }
    host_signals_.finish();
  }

  int running() const {
    return static_cast<int>(
        std::count_if(asked_.begin(), asked_.end(), [](const Asked& asked) { return !asked.process->ended(); }));
  }
  int connecting() const {
    return static_cast<int>(std::count_if(asked_.begin(), asked_.end(), [](const Asked& asked) {
      return !asked.process->ended() && !asked.process->begun();
    }));
  }

  const Job& job_;
  SignalQueue signals_;
  OpenFiles files_;
  HostSignals host_signals_{job_.launcher, {signals_.before(), files_.before()}};
  Deadline until_;
  bool late_ = false;
  std::vector<Answer> answers_;
  std::deque<Asked> asked_;
};

}  // namespace

Interrupted::Interrupted(int signal)
    : Error(Code::Aborted, fmt::format("ended by signal {} ({})", signal, strsignal(signal))), signal_(signal) {}

std::vector<Answer> ask(const Job& job, double seconds) { return Asking(job, seconds).run(); }

}  // namespace tutti::tools
