// Answers people who ask a process how its job does: `tutti status`, `tutti trace` and others, on a UNIX socket.
//
// The socket has the abstract name "tutti-status-PROCESS-START", where START is the process's start in the kernel's
// ticks since boot. Only processes of the same user, and root's, are answered. A client sends the line "job", and
// gets one line of JSON about this process and all with which it shares a communicator (control/status/job_status.hpp);
// then the connection ends. "trace" asks for the process's own last calls, likewise (trace/rank_trace.hpp). Processes
// among themselves send "fields", "metrics", or "timing" and a communicator's name, for a ProcessStatus, ProcessMetrics
// or ProcessTiming as bytes.
//
// Other processes are asked as control/status/survey.hpp says. One that does not answer within a moment is silent.
// Answers are gathered once for all who ask at the same time, and kept for a moment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "control/status/clients.hpp"
#include "control/status/job_status.hpp"
#include "control/status/metrics_server.hpp"
#include "control/status/questions.hpp"
#include "control/status/ras/server.hpp"
#include "control/status/slow_watch.hpp"
#include "control/status/survey.hpp"
#include "control/status/trace_file.hpp"

namespace tutti::control {

class ControlThread;

/// Throws Error(InvalidArgument) if TUTTI_METRICS or TUTTI_RAS_ADDR is no place at which anything can listen. Whether
/// one can listen there is seen later, and a job runs without it.
void check_status_settings();

/// Belongs to the control thread.
class StatusServer {
 public:
  explicit StatusServer(ControlThread& control);

  /// Listens from now on. Without the socket (its name is taken) there is no service, of which the log warns.
  void open();

  /// The job as it is now, or was a moment ago; at once or later.
  using UseJob = std::function<void(const JobStatus&)>;
  void with_job(UseJob use);

 private:
  void look();
  void obey(Clients::Id client);
  void answer_waiting(const JobStatus& job);
  void gathered(std::vector<Survey::Asked> all);
  static void take(JobProcess& process, const std::string& answer);

  ControlThread& control_;
  Clients clients_;
  Questions questions_;
  Survey survey_{control_, questions_};
  MetricsServer metrics_{control_, questions_};
  SlowWatch slow_{control_, survey_};
  TraceSignal trace_signal_;
  ras::RasServer ras_{control_, [this](UseJob use) { with_job(std::move(use)); }};
  bool gathering_ = false;         // a job
  std::vector<UseJob> uses_;       // of it
  std::optional<JobStatus> kept_;  // the last one, until kept_until_
  Deadline::Clock::time_point kept_until_{};
};

}  // namespace tutti::control
