// tutti watch: a page about a running job, for a browser.
#include <CLI/CLI.hpp>
#include <charconv>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.hpp"
#include "base/format.hpp"
#include "base/http.hpp"
#include "base/socket.hpp"
#include "control/event_loop.hpp"
#include "control/status/clients.hpp"
#include "control/status/tcp_user.hpp"
#include "tools/commands.hpp"
#include "tools/embedded_text.hpp"
#include "tools/number_range.hpp"
#include "tools/status/ask.hpp"
#include "tools/watch/history.hpp"
#include "tools/watch/watched_job.hpp"

namespace tutti::tools {
namespace {

struct WatchOptions {
  uint32_t process = 0;  // 0: a job of this host
  std::string http = ":8000";
  double interval = 1;  // seconds
};

std::optional<uint64_t> number_after(std::string_view prefix, std::string_view path) {
  if (!path.starts_with(prefix)) return std::nullopt;
  uint64_t number = 0;
  const char* const end = path.data() + path.size();
  const auto read = std::from_chars(path.data() + prefix.size(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// Serves the page, and what it asks for.
class WatchServer {
 public:
  WatchServer(control::EventLoop& loop, const History& history, const Address& address)
      : history_(history),
        address_(address),
        clients_(loop, {.admits = [](int fd) { return !control::is_other_users(fd); },
                        .received = [this](control::Clients::Id client) { obey(client); },
                        .dropped = {}}) {}
  void listen(Fd listener) { clients_.listen(std::move(listener)); }

 private:
  void obey(control::Clients::Id client) {
    try {
      if (const auto request = parse_http(client->request)) clients_.answer(client, answer(*request));
    } catch (const Error&) {
      clients_.answer(client, http_response("400 Bad Request", "text/plain", "not a request\n"));
    }
  }

  std::string answer(const HttpRequest& request) const {
    if (address_.is_loopback() && !names_this_host(request.host)) {
      return http_response("403 Forbidden", "text/plain", "ask for localhost\n");
    }
    if (request.method != "GET") return http_response("405 Method Not Allowed", "text/plain", "only GET\n");
    if (request.path == "/") return http_response("200 OK", "text/html; charset=utf-8", watch_texts().front().text);
    if (const auto after = number_after("/samples/", request.path)) {
      return http_response("200 OK", "application/json", history_.page(*after));
    }
    return http_response("404 Not Found", "text/plain", "there are / and /samples/NUMBER\n");
  }

  /// Of the names that lead to this host's own address: another one may be a foreign site's, whose script is not to
  /// read what is here (DNS rebinding).
  bool names_this_host(std::string_view host) const {
    const bool v6 = host.starts_with('[');
    const std::string_view name = v6 ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'));
    return host.empty() || name == "localhost" || name == "127.0.0.1" || name == "::1" || name == to_string(address_);
  }

  const History& history_;
  const Address address_;
  control::Clients clients_;
};

Address address_of(const HostPort& where) {
  const Address address = numeric_address(where.host.empty() || where.host == "localhost" ? "127.0.0.1" : where.host);
  if (!address.valid()) {
    throw_error(Code::InvalidArgument, "--http {}: expected :PORT, or the IP address of this host and a port",
                where.host);
  }
  return address;
}

void serve(const WatchOptions& options) {
  const HostPort where = parse_host_port(options.http);
  const Address address = address_of(where);
  const uint32_t process = any_process_to_ask(options.process);
  control::EventLoop loop;
  History history(options.interval);
  WatchServer server(loop, history, address);
  const bool usual = address == Address::loopback();
  const std::string url =
      fmt::format("http://{}/", usual ? fmt::format("localhost:{}", where.port) : to_string(address, where.port));
  server.listen(listen_tcp(address, where.port));
  const WatchedJob job(
      process, options.interval,
      {.rates =
           [&](TopTable table, double seconds) {
             loop.post([&history, table = std::move(table), seconds] { history.add(table, seconds); });
           },
       .silence = [&](std::string why) { loop.post([&history, why = std::move(why)] { history.end(why); }); }});
  fmt::print("{} shows the job of process {}; Ctrl-C ends it\n", url, process);
  std::fflush(stdout);
  loop.run();
}

}  // namespace

void add_watch(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("watch", "a page for a browser: waiting by rank and time, the graph of waits, throughput");
  const auto options = std::make_shared<WatchOptions>();
  command
      ->add_option("PROCESS", options->process,
                   "a process of the job, or its launcher, by number; default: a job of this host")
      ->check(CLI::Range(1, INT_MAX));
  command
      ->add_option("--http", options->http,
                   "where the page is served, as :PORT (for this host alone) or ADDRESS:PORT (for all who reach it)")
      ->capture_default_str();
  command->add_option("--interval", options->interval, "seconds between two looks")
      ->check(within(0.1, 3600.0))
      ->capture_default_str();
  command->footer(
      "From another machine: ssh -L 8000:localhost:8000 HOST tutti watch, then http://localhost:8000/ there.\n"
      "Example:\n  tutti watch 4711 --http :8000\n");
  command->callback([options] { serve(*options); });
}

}  // namespace tutti::tools
