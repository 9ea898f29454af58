// TUTTI_PORTS: the TCP ports at which processes listen, where a firewall lets in no others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti {

/// The first port is where rank 0 serves the unique id; the others are for processes.
struct PortRange {
  uint16_t first = 0, last = 0;
};

/// Reads "20000-20063". Throws Error(InvalidArgument) unless it names at least two ports.
PortRange parse_port_range(const std::string& text);
/// As TUTTI_PORTS says; empty if it is unset.
std::optional<PortRange> fixed_ports();

}  // namespace tutti
