#include "transports/tcp/streams.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "topo/constants.hpp"
#include "transports/tcp/frame.hpp"

namespace tutti::transports::tcp {
namespace {

constexpr double kTrySeconds = 1;  // for one of several ways: packets may vanish there

std::string congestion_control(int fd) {
  char name[16] = {};
  socklen_t size = sizeof name - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 ? name : "";
}

bool set_congestion_control(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

/// Seconds of the shortest round trip so far.
double round_trip(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_rtt == 0) return 1;
  return static_cast<double>(info.tcpi_rtt) * 1e-6;
}

}  // namespace

std::string label_of(uint32_t link_lane, uint32_t stream) {
  return stream == 0 ? fmt::format("tcp:{}", link_lane) : fmt::format("tcp:{}:{}", link_lane, stream);
}

uint32_t streams_for(double mbps) {
  if (env().tcp_streams) return static_cast<uint32_t>(*env().tcp_streams);
  constexpr double kTwo = 25e3, kFour = 100e3;  // one connection is one core's work at the other end
  return mbps >= kFour ? 4 : mbps >= kTwo ? 2 : 1;
}

std::string choose_congestion_control(int fd) {
  const std::string& wanted = env().tcp_congestion;
  std::string now = congestion_control(fd);
  if (now.empty() || wanted == "system") return now;
  if (!wanted.empty()) {
    if (set_congestion_control(fd, wanted)) return wanted;
    static std::atomic<bool> warned{false};
    if (!warned.exchange(true)) {
      log_warn(
          "TUTTI_TCP_CONGESTION={}: {}; {} is used. What this user may choose stands in "
          "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
          wanted, std::strerror(errno), now);
    }
    return now;
  }
  if (!now.starts_with("bbr") || round_trip(fd) >= machine_constants().tcp_short_path) return now;
  for (const char* name : {"cubic", "reno"}) {
    if (set_congestion_control(fd, name)) return name;
  }
  return now;
}

std::string speed_words(double mbps) { return mbps > 0 ? fmt::format("{:g} Gb/s", mbps / 1000) : "unknown speed"; }

std::vector<Path>& StreamOpener::paths(Rank peer) {
  const auto [known, fresh] = paths_.try_emplace(peer);
  if (fresh) known->second = wireup_.paths(peer);
  return known->second;
}

std::vector<Fd> StreamOpener::open(Rank peer, uint32_t link_lane, Deadline deadline) {
  std::vector<Path>& ways = paths(peer);
  std::vector<Fd> streams;
  streams.push_back(open_one(ways, peer, link_lane, 0, deadline));
  const auto each = streams_for(ways.empty() ? 0 : ways.front().mbps);
  for (uint32_t i = 1; i < std::min<size_t>(kMaxStreams, each * std::max<size_t>(1, ways.size())); ++i) {
    streams.push_back(open_one(ways, peer, link_lane, i, deadline));
  }
  std::string control;
  for (const Fd& fd : streams) {
    send_without_delay(fd.get());
    control = choose_congestion_control(fd.get());
  }
  if (!logged_) {
    std::vector<std::string> names;
    for (const Path& way : ways) names.push_back(fmt::format("{} ({})", way.interface, speed_words(way.mbps)));
    log_info("rank {}: tcp to rank {}: {} stream{} for each link{}{}{}{}", wireup_.rank(), peer, streams.size(),
             streams.size() == 1 ? "" : "s", names.empty() ? "" : " over ", fmt::join(names, ", "),
             control.empty() ? "" : "; congestion control ", control);
    logged_ = true;
  }
  return streams;
}

/// Stream i goes over way i mod the number of ways. A way that does not lead there is not tried again.
Fd StreamOpener::open_one(std::vector<Path>& ways, Rank peer, uint32_t link_lane, uint32_t stream, Deadline deadline) {
  while (!ways.empty()) {
    const auto way = ways.begin() + stream % static_cast<uint32_t>(ways.size());
    try {
      return wireup_.open_stream_over(*way, peer, label_of(link_lane, stream),
                                      Deadline::in(std::min(kTrySeconds, deadline.left())));
    } catch (const Error& error) {
      if (error.code() == Code::Aborted || deadline.passed()) throw;
      log_info("rank {}: {} does not lead to rank {}: {}", wireup_.rank(), way->interface, peer, error.what());
      ways.erase(way);
    }
  }
  return wireup_.open_stream(peer, label_of(link_lane, stream), deadline);
}

}  // namespace tutti::transports::tcp
