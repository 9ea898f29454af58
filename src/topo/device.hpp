// What a PCI device is, and steps that all readers of devices share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace tutti::topo {

enum class DeviceKind : uint8_t { Bridge, Gpu, Nic, NvSwitch, Other };

/// `class_code`: 24 bits, such as 0x030200. `vendor`: 0 if unknown. Displays of servers' management chips are no GPUs.
DeviceKind device_kind(uint32_t class_code, uint32_t vendor);

/// Hexadecimal with or without "0x"; 0 if it is none.
uint32_t parse_hex(std::string_view text);

/// The usable rate in GB/s of a port of `mbps` Mb/s.
double port_rate(double mbps);

/// Lower case, as addresses are compared. NVML's "00000000:18:00.0" becomes "0000:18:00.0".
std::string address_of(std::string_view text);

/// NVLinks of one host's GPUs, as each GPU reports them. Both ends of a link may report it.
class NvLinks {
 public:
  enum class Peer : uint8_t { Unknown, Gpu, Switch, Processor };
  /// A GPU has `count` links to the device at `address`. An unknown device that is no known GPU is an NVSwitch, which
  /// virtual machines hide.
  void add(NodeId gpu, const std::string& address, Peer peer, uint32_t count);
  /// Adds the links, and one node for all NVSwitches. What cannot be is left out, with a note.
  void connect(Graph& graph, NodeId host) const;

 private:
  struct Reported {
    Peer peer = Peer::Unknown;
    uint32_t count = 0;
  };
  std::map<NodeId, std::map<std::string, Reported>> reported_;
};

/// Gives numbers to GPUs that have none, in order, and makes every GPU a rank, in the order of their numbers.
void number_gpus(Graph& graph, NodeId host);

}  // namespace tutti::topo
