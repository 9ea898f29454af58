// Which port of which device this rank uses, and why a host has none.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "topo/share.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

struct CloseDevice {
  void operator()(ibv_context* device) const { ibv_close_device(device); }
};

/// An active port of an open device.
struct Port {
  std::unique_ptr<ibv_context, CloseDevice> device;
  std::string name;  ///< "mlx5_0:1"
  uint8_t number = 0;
  ibv_port_attr attributes{};
  bool ethernet = false;
  uint8_t gid_index = 0;
  uint16_t pkey_index = 0;
  NicAddress address;
};

/// The active port that a rank at this place of its host uses, of those that TUTTI_VERBS_HCA permits: of each device
/// the first, divided by topo::share_out(). Throws Error(Unsupported) that says what this host lacks and what to do.
Port find_port(const topo::HostPlace& place);

/// "" if this host has what the transport needs, else what it lacks.
std::string why_not();

/// The words for memory that cannot be registered: the limit, and how to raise it.
std::string locked_memory_words(uint64_t bytes, int error);

}  // namespace tutti::transports::verbs
