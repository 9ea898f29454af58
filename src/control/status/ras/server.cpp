#include "control/status/ras/server.hpp"

#include <time.h>

#include <array>
#include <exception>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/control_thread.hpp"
#include "control/status/ras/report.hpp"
#include "control/status/tcp_user.hpp"

namespace tutti::control::ras {
namespace {

constexpr double kTimeLimit = 60;  // seconds that a connection may last

std::string local_time() {
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

}  // namespace

void check_address(const std::string& text) {
  if (text.empty()) return;
  std::string why = "it has no host";
  try {
    if (!parse_host_port(text).host.empty()) return;
  } catch (const Error& error) {
    why = error.what();
  }
  throw_error(Code::InvalidArgument, "TUTTI_RAS_ADDR={}: expected HOST:PORT, such as localhost:28028 ({})", text, why);
}

RasServer::RasServer(ControlThread& control, WithJob with_job)
    : control_(control),
      with_job_(std::move(with_job)),
      clients_(control.loop(), {.time_limit = kTimeLimit,
                                .admits = [](int fd) { return !is_other_users(fd); },
                                .received = [this](Clients::Id client) { obey(client); },
                                .dropped = [this](Clients::Id client) { sessions_.erase(&*client); }}) {}

void RasServer::open() {
  if (usable_env().ours.ras_address.empty()) return;
  try {
    clients_.listen(listen_tcp_shared(usable_env().ours.ras_address));
    log_debug("NCCL's RAS protocol is spoken at {}", usable_env().ours.ras_address);
  } catch (const Error& error) {  // a job runs without it; another user may have the port
    const std::string text =
        fmt::format("TUTTI_RAS_ADDR: no client of NCCL's RAS can ask this process: {}", error.what());
    error.code() == Code::SystemError ? log_info("{}", text) : log_warn("{}", text);
  }
}

void RasServer::obey(Clients::Id client) {
  Session& session = sessions_[&*client];
  std::string replies;
  const Session::Then then = session.take(std::exchange(client->request, {}), replies);
  if (then == Session::Then::Close) return clients_.drop(client);
  if (then == Session::Then::Listen) {
    if (!replies.empty()) clients_.say(client, replies);
    return;
  }
  clients_.hold(client);
  const auto began = Deadline::Clock::now();
  if (!replies.empty()) clients_.say(client, replies);
  with_job_([this, began](const JobStatus& job) {
    answer_waiting(job, std::chrono::duration<double>(Deadline::Clock::now() - began).count());
  });
}

void RasServer::answer_waiting(const JobStatus& status, double seconds) {
  Job job = job_of(status);
  job.seconds = seconds;
  clients_.each_waiting([&](Clients::Id client) {
    const Session session = sessions_[&*client];
    clients_.answer(client, session.json() ? to_json(job, local_time()) : to_text(job, session.verbose()));
  });
}

}  // namespace tutti::control::ras
