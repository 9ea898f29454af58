#include "tools/check/reach.hpp"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "base/socket.hpp"
#include "tools/check/echo_server.hpp"
#include "tools/check/rows.hpp"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPings = 20;
constexpr size_t kLarge = 64 << 10;    // bytes: more than one packet of any network
constexpr double kAttempt = 3;         // seconds for one connection
constexpr double kStart = 5;           // seconds until the other host listens
constexpr double kExchange = 2;        // seconds for a message to come back
constexpr size_t kAtTheSameTime = 64;  // hosts that are connected to

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// 0 when it is connected, else the errno. Throws Error(Timeout).
int outcome(int fd, const Deadline& deadline) {
  try {
    await_ready(fd, POLLOUT, {deadline});
  } catch (const Error& error) {
    if (error.code() != Code::Timeout) throw;
    throw_error(Code::Timeout, "no answer to a connection: a firewall drops it, or no route leads there");
  }
  return connect_error(fd);
}

/// A connection to `address`; while nothing listens there yet, again. Throws Error(Timeout, PeerFailed), in words for
/// the user.
Fd connect_to(const Address& address, uint16_t port, const Deadline& deadline) {
  const Deadline listens = Deadline::in(std::min(kStart, deadline.left()));
  for (;;) {
    Fd socket = start_connect(address, port);
    const int error = socket ? outcome(socket.get(), Deadline::in(std::min(kAttempt, deadline.left()))) : errno;
    if (error == 0) return socket;
    if (error != ECONNREFUSED) throw_error(Code::PeerFailed, "{}", std::strerror(error));
    if (listens.passed()) {
      throw_error(Code::PeerFailed,
                  "connection refused: a firewall rejects it, or the address is another machine's too");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// Sends `bytes` and receives as many.
void exchange(int fd, std::string_view bytes, const char* failure) {
  std::string back(bytes.size(), '\0');
  try {
    const WaitLimit limit{Deadline::in(kExchange)};
    send_all(fd, bytes, limit);
    recv_all(fd, back.data(), back.size(), limit);
  } catch (const Error& error) {
    const bool late = error.code() == Code::Timeout;
    throw_error(error.code(), "{}",
                late ? failure : "something else answers there: is the address another machine's too?");
  }
  if (back != bytes) throw_error(Code::ProtocolError, "something else answers there");
}

/// Of one address: the round trip, and whether large messages pass.
double try_connection(int fd, const ReachRequest& request, int self, int other) {
  send_without_delay(fd);
  send_all(fd, opening(request.token, self, other), {Deadline::in(kExchange)});
  double shortest = 1e9;
  for (size_t i = 0; i < kPings; ++i) {
    const auto start = Clock::now();
    exchange(fd, "x", "it is connected, but nothing comes back");
    shortest = std::min(shortest, seconds_since(start));
  }
  exchange(fd, std::string(kLarge, 'y'),
           "small messages pass and large ones do not: is the MTU the same on the whole way (ip link)?");
  return shortest;
}

/// All addresses of host `other`. Connections stay open until all have been tried: `other` serves that long.
std::vector<Reached> try_host(const ReachRequest& request, int self, int other, const Deadline& deadline) {
  const ReachRequest::Host& host = request.hosts[static_cast<size_t>(other)];
  std::vector<Reached> found;
  std::vector<Fd> open;
  for (const std::string& address : host.addresses) {
    Reached& reached = found.emplace_back(Reached{other, address, 0, ""});
    try {
      open.push_back(connect_to(resolve(address).at(0), host.port, deadline));
      reached.round_trip = try_connection(open.back().get(), request, self, other);
    } catch (const Error& error) {
      reached.why_not = error.what();
    }
  }
  return found;
}

}  // namespace

std::string to_text(const ReachRequest& request) {
  nlohmann::json hosts = nlohmann::json::array();
  for (const ReachRequest::Host& host : request.hosts)
    hosts.push_back({{"addresses", host.addresses}, {"port", host.port}});
  return nlohmann::json{{"token", request.token}, {"hosts", hosts}, {"seconds", request.seconds}}.dump();
}

ReachRequest parse_request(std::string_view text) {
  try {
    const nlohmann::json object = parse_shallow_json(std::string(text));
    ReachRequest request{object.at("token").get<std::string>(), {}, object.at("seconds").get<double>()};
    for (const auto& host : object.at("hosts")) {
      request.hosts.push_back({host.at("addresses").get<std::vector<std::string>>(), host.at("port").get<uint16_t>()});
    }
    return request;
  } catch (const nlohmann::json::exception& error) {
    throw_error(Code::ProtocolError, "not a request of tutti run --check: {}", error.what());
  }
}

nlohmann::ordered_json to_json(const std::vector<Reached>& reached) {
  auto rows = nlohmann::ordered_json::array();
  for (const Reached& one : reached) {
    rows.push_back(
        {{"host", one.host}, {"address", one.address}, {"round_trip", one.round_trip}, {"why_not", one.why_not}});
  }
  return rows;
}

std::vector<Reached> parse_reached(std::string_view text) {
  return parse_rows<Reached>(text, [](const nlohmann::json& row) {
    return Reached{row.at("host").get<int>(), printable(row.at("address").get<std::string>()),
                   row.at("round_trip").get<double>(), printable(row.at("why_not").get<std::string>())};
  });
}

std::vector<Reached> reach(const ReachRequest& request, int self) {
  const Deadline deadline = Deadline::in(request.seconds);
  const size_t hosts = request.hosts.size();
  EchoServer server(request.hosts[static_cast<size_t>(self)].port, request.token, hosts, self);
  std::vector<std::vector<Reached>> found(hosts);
  std::vector<std::thread> workers;
  std::atomic<size_t> next = 1;
  for (size_t i = 0; i < std::min(kAtTheSameTime, hosts - 1); ++i) {
    workers.emplace_back([&] {
      // Each begins with the host after it, so that not all connect to one at the same time.
      for (size_t step = next++; step < hosts; step = next++) {
        const int other = static_cast<int>((static_cast<size_t>(self) + step) % hosts);
        found[static_cast<size_t>(other)] = try_host(request, self, other, deadline);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  server.finish(deadline);
  std::vector<Reached> all;
  for (auto& some : found) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace tutti::tools
