// Which device of this host reaches windows of other hosts.
#pragma once

#include <string>
#include <vector>

#include "transports/transport.hpp"

namespace tutti::comm {

/// A transport that has a device for windows; null: none, and why not.
struct WindowRdma {
  const transports::TransportEntry* transport = nullptr;
  std::string why_not;
};

/// For peers whose messages go over `messages`: its own device, or, if it permits that, the one of another transport.
/// `forced`: TUTTI_TRANSPORT.
WindowRdma window_rdma(const transports::TransportEntry& messages, const std::string& forced,
                       const std::vector<transports::TransportEntry>& usable,
                       const std::vector<transports::UnusableModule>& unusable);

}  // namespace tutti::comm
