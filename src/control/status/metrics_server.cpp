#include "control/status/metrics_server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/http.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "base/socket.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/status/status.hpp"
#include "control/wait_graph.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxAnswer = size_t{4} << 20;  // bytes of a process's metrics
constexpr std::string_view kOpenMetrics = "application/openmetrics-text";
constexpr double kAgain = 5;       // seconds between two attempts to listen
constexpr double kFileEvery = 10;  // seconds between two writings of a file

[[noreturn]] void refuse(const std::string& text) {
  throw_error(Code::InvalidArgument, "TUTTI_METRICS={}: expected :PORT, ADDRESS:PORT, unix:NAME or file:/PATH", text);
}

/// A collector may run as another user. Not synchronised with the disk, for which this thread would wait.
void write_for_all(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  bool written = fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  written = written && ::rename(part.c_str(), path.c_str()) == 0;
  if (!written) throw_error(Code::SystemError, "{} cannot be written: {}", path, std::strerror(errno));
}

Address address_of(const std::string& name) { return numeric_address(name == "localhost" ? "127.0.0.1" : name); }

}  // namespace

/// Answers of processes, as they come.
struct MetricsServer::Gathering {
  std::vector<ProcessMetrics> processes;
  size_t open = 0;
  bool asked = false;  // all of them
};

MetricsServer::MetricsServer(ControlThread& control, Questions& questions)
    : control_(control),
      questions_(questions),
      clients_(control.loop(),
               {.admits = [this](int fd) { return target_.kind != MetricsTarget::Kind::Unix || may_ask(fd); },
                .received = [this](Clients::Id client) { obey(client); },
                .dropped = {}}) {}

MetricsTarget parse_metrics_target(const std::string& text) {
  if (text.empty()) return {};
  if (text.starts_with("unix:") && text.size() > 5) return {.kind = MetricsTarget::Kind::Unix, .name = text.substr(5)};
  if (text.starts_with("file:/")) return {.kind = MetricsTarget::Kind::File, .name = text.substr(5)};
  try {
    const HostPort at = parse_host_port(text);
    if (at.host.empty() || address_of(at.host).valid()) {
      return {.kind = MetricsTarget::Kind::Tcp, .name = at.host, .port = at.port};
    }
  } catch (const Error&) {
  }
  refuse(text);
}

void MetricsServer::open() {
  try {
    target_ = parse_metrics_target(usable_env().ours.metrics);
  } catch (const Error&) {  // check_status_settings() says so where a communicator is made
  }
  if (target_.kind == MetricsTarget::Kind::None) return;
  target_.kind == MetricsTarget::Kind::File ? write_file() : try_to_listen();
}

Fd MetricsServer::listen_at_target() const {
  if (target_.kind == MetricsTarget::Kind::Unix) return listen_unix(target_.name);
  return target_.name.empty() ? listen_tcp(target_.port) : listen_tcp(address_of(target_.name), target_.port);
}

/// Another process of the job may have the socket: then this one tries again, in case that one ends.
void MetricsServer::try_to_listen() {
  try {
    clients_.listen(listen_at_target());
    log_info("metrics of this job's ranks on this host are served by this process at TUTTI_METRICS={}",
             usable_env().ours.metrics);
  } catch (const Error& error) {
    const bool taken = std::string_view(error.what()).ends_with(std::strerror(EADDRINUSE));
    if (!std::exchange(warned_, true)) {
      taken ? log_info("TUTTI_METRICS={}: another process has it: of this job, or of another one",
                       usable_env().ours.metrics)
            : log_warn("TUTTI_METRICS: no metrics are served: {}", error.what());
    }
    control_.loop().at(Deadline::in(kAgain), [this] { try_to_listen(); });
  }
}

void MetricsServer::obey(Clients::Id client) {
  try {
    const auto request = parse_http(client->request);
    if (request) answer(client, *request);
  } catch (const Error&) {
    clients_.answer(client, http_response("400 Bad Request", "text/plain", "not a request\n"));
  }
}

void MetricsServer::answer(Clients::Id client, const HttpRequest& request) {
  if (request.method != "GET") {
    return clients_.answer(client, http_response("405 Method Not Allowed", "text/plain", "only GET\n"));
  }
  if (request.path == "/metrics") {
    clients_.hold(client);
    return gather();
  }
  clients_.answer(client, request.path == "/"
                              ? http_response("200 OK", "text/html", "<a href=\"/metrics\">metrics</a> of Tutti\n")
                              : http_response("404 Not Found", "text/plain", "there is /metrics\n"));
}

/// Asks each other process of this host with which this one shares a communicator.
void MetricsServer::gather() {
  if (gathering_ != nullptr) return;
  gathering_ = std::make_shared<Gathering>();
  try {
    ask_all(gathering_);
  } catch (...) {  // those who wait end by their own timers
    gathering_.reset();
    throw;
  }
}

void MetricsServer::ask_all(const std::shared_ptr<Gathering>& now) {
  const Member& me = control_.local_member();
  now->processes.push_back(StatusBook::of_this_process().metrics());
  std::set<uint64_t> seen;
  const auto end = [this, now] {
    if (--now->open == 0 && now->asked && gathering_ == now) gathered();
  };
  for (const auto& client : control_.all_clients()) {
    if (!client->has_members()) continue;
    for (Rank rank = 0; rank < client->ranks(); ++rank) {
      const Member& member = client->member(rank);
      if (member.host != me.host || same_process(member, me) || client->left(rank) || client->lost(rank)) continue;
      if (!seen.insert(process_key(client->process_id(rank))).second) continue;
      ++now->open;
      const auto take = [now, end](const std::optional<std::string>& answer) {
        try {
          if (answer) now->processes.push_back(unpack_fields<ProcessMetrics>(*answer));
        } catch (const std::exception& error) {
          log_debug("control thread: a process of this host sent invalid metrics: {}", error.what());
        }
        end();
      };
      questions_.ask({.member = member, .request = "metrics", .most = kMaxAnswer, .answer = take, .unreachable = end});
    }
  }
  now->asked = true;
  if (now->open == 0) gathered();
}

void MetricsServer::gathered() {
  const auto done = std::exchange(gathering_, nullptr);
  std::string open, classic;
  clients_.each_waiting([&](Clients::Id client) {
    const bool wants_open = parse_http(client->request)->accept.find(kOpenMetrics) != std::string::npos;
    std::string& reply = wants_open ? open : classic;
    if (reply.empty()) {
      reply = wants_open ? http_response("200 OK", kMetricsType, open_metrics(done->processes))
                         : http_response("200 OK", kClassicType, classic_metrics(done->processes));
    }
    clients_.answer(client, reply);
  });
}

void MetricsServer::write_file() {
  control_.loop().at(Deadline::in(kFileEvery), [this] { write_file(); });
  try {
    write_for_all(path_of_process(target_.name), classic_metrics({StatusBook::of_this_process().metrics()}));
  } catch (const std::exception& error) {
    if (!std::exchange(warned_, true)) log_warn("TUTTI_METRICS: {}", error.what());
  }
}

}  // namespace tutti::control
