#include "transports/tcp/traffic.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace tutti::transports::tcp {
namespace {

constexpr uint64_t kMicrosecond = 1000;  // nanoseconds

/// False if the kernel is older than what is read of it (4.10).
bool read_info(int fd, tcp_info& info) {
  socklen_t size = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         size >= offsetof(tcp_info, tcpi_sndbuf_limited) + sizeof info.tcpi_sndbuf_limited;
}

}  // namespace

void StreamTraffic::add(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

std::vector<Traffic> StreamTraffic::read() const {
  std::map<std::pair<Rank, uint32_t>, Traffic> links;
  std::map<std::pair<Rank, uint32_t>, uint64_t> streams_out;
  const std::lock_guard lock(mutex_);
  for (const Stream& stream : streams_) {
    tcp_info info{};
    if (!read_info(stream.fd, info)) continue;
    const std::pair name{stream.peer, stream.lane};
    Traffic& link = links[name];
    std::tie(link.peer, link.lane) = name;
    if (!stream.out) {
      link.received += info.tcpi_bytes_received;
      continue;
    }
    ++streams_out[name];
    link.sent += info.tcpi_bytes_acked;
    link.resent += info.tcpi_total_retrans;
    // A receiver whose window is closed is no matter of the link.
    if (info.tcpi_busy_time > info.tcpi_rwnd_limited) {
      link.busy += (info.tcpi_busy_time - info.tcpi_rwnd_limited) * kMicrosecond;
    }
  }
  std::vector<Traffic> all;
  for (auto& [name, link] : links) {
    if (streams_out[name] > 1) link.busy /= streams_out[name];  // messages are striped over them
    all.push_back(link);
  }
  return all;
}

}  // namespace tutti::transports::tcp
