// The launcher of a job while it runs: starts the ranks, forwards their output and signals, and ends them.
#pragma once

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "tools/run/guardian.hpp"
#include "tools/run/host_signals.hpp"
#include "tools/run/job.hpp"
#include "tools/run/limits.hpp"
#include "tools/run/output.hpp"
#include "tools/run/rank_process.hpp"
#include "tools/run/restarts.hpp"
#include "tools/run/signals.hpp"

namespace tutti::tools {

inline constexpr double kFromTermToKill = 2;  // seconds

/// One job, from start to end.
class Supervisor {
 public:
  explicit Supervisor(const Job& job);

  int run();

 private:
  void start();
  void say(const std::string& text) { streams_.err().put(job_.speaker + ": " + text + "\n"); }
  void turn(double at_most);
  void start_rank(int rank, int stdin_source);
  void await_turn_of(const std::string& host);
  void watch(const RankProcess& rank);  // the last of ranks_
  void pass_output_on();
  void reap_ranks();
  void reap_others();
  void note_end(RankProcess& rank, int wait_status);
  bool goes_on_after(const RankProcess& rank);
  void restart_ranks();
  void end_lost_ranks();
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
    counted_ = seconds;
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
  std::deque<RankProcess> ranks_;  // in the order of their starts; some ranks are started again
  size_t started_ = 0;             // ranks that have been started
  Fd ends_{epoll_create1(EPOLL_CLOEXEC)};
  // Ranks' output to our standard output and to our standard error. Nothing is read while the stream is blocked.
  struct {
    const Sink* to;
    Fd ready{epoll_create1(EPOLL_CLOEXEC)};
  } outputs_[2] = {{&streams_.out()}, {&streams_.err()}};
  std::vector<Fd> pidfds_;          // of ranks_
  int first_status_ = 0;            // of the first rank that failed
  bool succeeded_ = false;          // some rank ended with status 0
  std::vector<std::string> later_;  // descriptions of later failures, at most kToldLater
  size_t failed_later_ = 0;
  int interrupted_by_ = 0;    // the signal sent to the launcher
  bool output_lost_ = false;  // our own output accepts no more
  bool was_refused_ = false;  // a rank is not started again, since it has refused its arguments
  std::optional<Deadline> deadline_;
  double counted_ = 0;   // seconds that it was away
  int next_signal_ = 0;  // to be sent at the deadline
};

}  // namespace tutti::tools
