#include "transports/tcp/state.hpp"

#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"
#include "base/port_range.hpp"
#include "topo/constants.hpp"
#include "topo/ports.hpp"
#include "transports/tcp/streams.hpp"

namespace tutti::transports::tcp {
namespace {

/// The interfaces that TUTTI_INTERFACE permits, with their addresses, speeds and streams. Throws Error.
std::vector<std::string> interfaces() {
  std::vector<std::string> names, words;
  for (const Address& address : local_addresses()) {
    const std::string name = interface_of(address);
    if (address.is_loopback() || name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(name);
    const double mbps = topo::read_interface(name).mbps;
    const uint32_t streams = streams_for(mbps);
    words.push_back(fmt::format("{} ({}, {}, {} stream{} for each link)", name, to_string(address), speed_words(mbps),
                                streams, streams == 1 ? "" : "s"));
  }
  return words;
}

/// The congestion control of data connections, as far as it is known without a peer.
std::string congestion_words() {
  if (const std::string& wanted = env().tcp_congestion; !wanted.empty() && wanted != "system") return wanted;
  std::string usual;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control"), usual);
  if (!usual.starts_with("bbr") || !env().tcp_congestion.empty()) return usual;
  return fmt::format("{}, but cubic or reno where a round trip takes less than {:g} ms", usual,
                     machine_constants().tcp_short_path * 1e3);
}

}  // namespace

std::string state() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fmt::format("not usable: a TCP socket was refused: {}", std::strerror(errno));
  try {
    const std::optional<PortRange> ports = fixed_ports();
    const auto words = interfaces();
    if (words.empty()) return "usable: on this host only; no interface but loopback is up with an address";
    return fmt::format("usable: over {}; congestion control {}{}", fmt::join(words, ", "), congestion_words(),
                       ports ? fmt::format("; listening at ports {}-{}", ports->first, ports->last) : "");
  } catch (const Error& error) {
    return fmt::format("not usable: {}", error.what());
  }
}

}  // namespace tutti::transports::tcp
