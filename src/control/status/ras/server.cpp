#include "control/status/ras/server.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/control_thread.hpp"
#include "control/status/ras/report.hpp"

namespace tutti::control::ras {
namespace {

constexpr double kTimeLimit = 60;  // seconds that a connection may last

/// Address and port as the kernel's question has them. IPv6 addresses of IPv4 are those.
struct End {
  uint8_t family = 0;
  uint16_t port = 0;  // network order
  std::array<uint32_t, 4> address{};
};

End end_of(const sockaddr_storage& at) {
  End end;
  if (at.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
    end = {.family = AF_INET, .port = v4.sin_port, .address = {v4.sin_addr.s_addr}};
    return end;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
  end.port = v6.sin6_port;
  const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  end.family = is_v4 ? AF_INET : AF_INET6;
  std::memcpy(end.address.data(), v6.sin6_addr.s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
  return end;
}

/// The user of this host's socket with these ends (sock_diag(7)); −1: there is none, or the kernel does not say.
int64_t user_of(const End& local, const End& remote) {
  struct {
    nlmsghdr head{};
    inet_diag_req_v2 body{};
  } request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = local.family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  request.body.id.idiag_sport = local.port;
  request.body.id.idiag_dport = remote.port;
  std::memcpy(request.body.id.idiag_src, local.address.data(), sizeof local.address);
  std::memcpy(request.body.id.idiag_dst, remote.address.data(), sizeof remote.address);
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd || send(fd.get(), &request, sizeof request, MSG_DONTWAIT) != sizeof request) return -1;
  alignas(nlmsghdr) std::array<char, 8192> reply{};
  const ssize_t got = recv(fd.get(), reply.data(), reply.size(), MSG_DONTWAIT);  // the kernel has answered by now
  const auto* const head = reinterpret_cast<const nlmsghdr*>(reply.data());
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return -1;
  return static_cast<const inet_diag_msg*>(NLMSG_DATA(head))->idiag_uid;
}

std::string local_time() {
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

}  // namespace

bool is_other_users(int fd) {
  sockaddr_storage peer{}, own{};
  socklen_t peer_size = sizeof peer, own_size = sizeof own;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return false;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  const int64_t user = user_of(end_of(peer), end_of(own));
  return user > 0 && user != static_cast<int64_t>(geteuid());
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
