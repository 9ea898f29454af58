// Answers clients of NCCL's RAS protocol (TUTTI_RAS_ADDR; through libnccl NCCL_RAS_ADDR): ncclras, Ray Train, SGLang.
// Read-only. As with NCCL, all processes of a user on a host listen at the same port, and the kernel chooses which
// of them answers: of jobs that run at the same time, each gives its own address. Belongs to the control thread.
#pragma once

#include <functional>
#include <map>

#include "control/status/clients.hpp"
#include "control/status/job_status.hpp"
#include "control/status/ras/session.hpp"

namespace tutti::control {
class ControlThread;
}

namespace tutti::control::ras {

/// Throws Error(InvalidArgument), which names TUTTI_RAS_ADDR, if `text` is not "" and not HOST:PORT.
void check_address(const std::string& text);

class RasServer {
 public:
  /// `with_job` passes the job on to its argument, at once or later.
  using WithJob = std::function<void(std::function<void(const JobStatus&)>)>;
  RasServer(ControlThread& control, WithJob with_job);

  /// Does nothing if TUTTI_RAS_ADDR is unset. Of an address at which it cannot listen the log warns.
  void open();

 private:
  void obey(Clients::Id client);
  void answer_waiting(const JobStatus& job, double seconds);

  ControlThread& control_;
  const WithJob with_job_;
  std::map<const Clients::Client*, Session> sessions_;
  Clients clients_;
};

}  // namespace tutti::control::ras
