// One rank of a job: its process and its output.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "tools/exit_status.hpp"
#include "tools/run/feed.hpp"
#include "tools/run/host_signals.hpp"
#include "tools/run/job.hpp"
#include "tools/run/output.hpp"

namespace tutti::tools {

/// A rank's output on one of its two streams, forwarded to the launcher's.
class OutputStream {
 public:
  /// `prefix` empty: forwarded unchanged. `remote`: the line with the process id is removed.
  OutputStream(Fd source, Sink& target, const std::string& prefix, bool remote);

  int fd() const { return source_.get(); }
  bool open() const { return static_cast<bool>(source_); }
  const Sink& target() const { return *target_; }
  /// Forwards what is there until the target is blocked, without waiting. False: the target accepts no more.
  bool drain();
  /// Forwards an incomplete last line and stops.
  void close();
  std::optional<int> remote_pid() const { return remote_pid_; }

 private:
  std::string_view without_pid_line(std::string_view text, std::string& kept);
  bool pass_on(std::string_view text);

  Fd source_;
  Sink* target_;
  std::optional<LinePrefixer> lines_;
  std::string head_;  // of a remote rank's output, until the line with its process id is complete
  bool want_pid_;
  std::optional<int> remote_pid_;
};

class RankProcess {
 public:
  /// Starts it. `stdin_source`: for rank 0, else -1. `signals` must outlive it. Throws as `spawn` does.
  RankProcess(const Job& job, int rank, const Inherited& inherited, int stdin_source, Outputs& outputs,
              HostSignals& signals);

  int rank() const { return rank_; }
  /// The process group on this host: the rank's, or ssh's.
  pid_t pid() const { return pid_; }
  bool ended() const { return ended_; }
  /// Its host; empty: this one.
  const std::string& host() const { return host_; }
  /// On another host: the connection is made, and the program is being started.
  bool begun() const { return host_.empty() || outputs_.front().remote_pid().has_value(); }
  /// It has ended soon after its start, with the status by which programs say that their arguments are refused. (After
  /// hours of work the same status is a crash of some languages' programs.)
  bool refused() const;
  /// Its exit status, 128 + signal if a signal killed it. Valid once it has ended.
  int status() const;
  bool killed_by(int signal) const;
  /// "rank 2 (pid 71)" or "rank 2 (pid 71 on host b)".
  std::string name() const;
  /// "killed by signal 9 (Killed)", "exited with status 3".
  std::string what_became() const;

  void mark_ended(int wait_status);
  /// Sends a signal to all processes of the rank, on whatever host.
  void send(int signal) const;

  /// Its open output descriptors, each with the stream that it goes to, to be watched.
  std::vector<std::pair<int, const Sink*>> output_fds() const;
  /// Forwards available output, without waiting. False: the launcher's own output accepts no more.
  bool drain();
  bool output_open() const;
  void close_output();
  /// Its input: adds the descriptors that it waits for, and moves what can be moved without waiting.
  void wait_for(std::vector<pollfd>& fds) const;
  void feed(const std::vector<pollfd>& fds);
  /// The size of the launcher's window has changed.
  void resize() const;

 private:
  struct Ends {  // the rank's ends of its output; none: the launcher's own
    Fd out, err;
  };
  Ends open_output(const Job& job, Outputs& outputs);

  int rank_;
  std::string host_;
  HostSignals& signals_;
  std::string starter_;  // what runs a command on its host
  pid_t pid_ = -1;
  std::chrono::steady_clock::time_point started_, ended_at_;
  bool ended_ = false;
  int wait_status_ = 0;
  std::vector<OutputStream> outputs_;
  size_t prefix_columns_ = 0;
  bool terminal_ = false;  // its standard output is a pseudo-terminal
  std::optional<Feed> feed_;
};

}  // namespace tutti::tools
