// Network ports as the kernel reports them: /sys/class/infiniband and /sys/class/net.
#pragma once

#include <string>
#include <vector>

namespace tutti::topo {

struct PortReport {
  std::string name;     ///< "mlx5_0", "eth0"
  std::string address;  ///< PCI, of its device; "": none, or hidden
  double mbps = 0;      ///< of all its active ports; 0: unknown
  int numa = -1;        ///< -1: unknown
  bool rdma = false;    ///< an InfiniBand or RoCE adapter
  bool active = true;   ///< false: no port is up
};

/// RDMA adapters, then network interfaces of other devices. Interfaces without a device (bridges, tunnels) only if they
/// are up and nothing else is there, as in containers. `root` is prepended to /sys.
std::vector<PortReport> read_ports(const std::string& root = "");

/// A network interface by its name; speed and node are unknown where the kernel does not report them.
PortReport read_interface(const std::string& name, const std::string& root = "");

}  // namespace tutti::topo
