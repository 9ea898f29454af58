#include "transports/verbs/ibv_port.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "topo/cores.hpp"

namespace tutti::transports::verbs {
namespace {

struct FreeDevices {
  void operator()(ibv_device** all) const { ibv_free_device_list(all); }
};

/// Is `name:port` in the list of TUTTI_VERBS_HCA? Each entry is a device, or a device and a port.
bool is_permitted(std::string_view device, uint32_t port) {
  std::string_view list = env().verbs_hca;
  if (list.empty()) return true;
  const std::string with_port = fmt::format("{}:{}", device, port);
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, end);
    if (entry == device || entry == with_port) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// How well a GID serves RoCE: version 2 is routed by the host's IP network, and IPv4 by most of them.
int rank_of(const ibv_gid_entry& entry) {
  const uint8_t* raw = entry.gid.raw;
  if (std::all_of(raw, raw + kGidBytes, [](uint8_t byte) { return byte == 0; })) return 0;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 1;
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::memcmp(raw, kMapped, sizeof kMapped) == 0) return 4;
  const bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
  return link_local ? 2 : 3;
}

void choose_gid(Port& port) {
  ibv_gid_entry best{};
  int best_rank = -1;
  for (int index = 0; index < port.attributes.gid_tbl_len; ++index) {
    if (env().verbs_gid && index != *env().verbs_gid) continue;
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(port.device.get(), port.number, static_cast<uint32_t>(index), &entry, 0) != 0) continue;
    const int rank = port.ethernet ? rank_of(entry) : 1;
    if (rank <= best_rank) continue;
    best = entry;
    best_rank = rank;
    if (!port.ethernet) break;
  }
  if (port.ethernet && best_rank <= 0) {
    throw_error(Code::Unsupported, "{} has no {}; give its network interface an IP address", port.name,
                env().verbs_gid ? fmt::format("GID with index {} (TUTTI_VERBS_GID)", *env().verbs_gid) : "RoCE GID");
  }
  port.gid_index = static_cast<uint8_t>(best.gid_index);
  std::memcpy(port.address.gid, best.gid.raw, kGidBytes);
}

/// The first partition in which this port is a full member; of the number that TUTTI_VERBS_PKEY names.
void choose_pkey(Port& port) {
  constexpr uint16_t kFullMember = 0x8000;
  for (uint16_t index = 0; index < port.attributes.pkey_tbl_len; ++index) {
    __be16 key = 0;
    if (ibv_query_pkey(port.device.get(), port.number, index, &key) != 0) continue;
    const uint16_t value = be16toh(key);
    const bool wanted =
        env().verbs_pkey ? (value & ~kFullMember) == (*env().verbs_pkey & ~kFullMember) : (value & kFullMember) != 0;
    if (!wanted || value == 0) continue;
    port.pkey_index = index;
    return;
  }
  if (env().verbs_pkey) {
    throw_error(Code::Unsupported, "{} is not in partition {:#x} (TUTTI_VERBS_PKEY)", port.name, *env().verbs_pkey);
  }
}

uint16_t bytes_of(ibv_mtu mtu) { return static_cast<uint16_t>(128u << static_cast<unsigned>(mtu)); }

/// The first usable port of a device; what is wrong with others is added to `reasons`.
bool find_port_of(ibv_device* candidate, Port& port, std::string& reasons) {
  const std::string name = ibv_get_device_name(candidate);
  const auto reject = [&](const std::string& why) { reasons += (reasons.empty() ? "" : "; ") + why; };
  if (candidate->transport_type == IBV_TRANSPORT_IWARP) {
    reject(name +
           " is an iWARP device, whose queue pairs only rdma_cm connects, which Tutti does not use; take "
           "TUTTI_TRANSPORT=tcp");
    return false;
  }
  port.device.reset(ibv_open_device(candidate));
  if (port.device == nullptr) {
    reject(fmt::format("{} cannot be opened: {} (are /dev/infiniband/uverbs* there, and may this user use them?)", name,
                       std::strerror(errno)));
    return false;
  }
  ibv_device_attr device{};
  if (ibv_query_device(port.device.get(), &device) != 0) {
    reject(name + " cannot be queried");
    return false;
  }
  for (uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
    port.name = fmt::format("{}:{}", name, number);
    if (!is_permitted(name, number)) {
      reject(fmt::format("TUTTI_VERBS_HCA={} excludes {}", env().verbs_hca, port.name));
      continue;
    }
    if (ibv_query_port(port.device.get(), number, &port.attributes) != 0) continue;
    if (port.attributes.state != IBV_PORT_ACTIVE) {
      reject(fmt::format("port {} is {}, not active; see `rdma link`, and `ip link` for the network interface",
                         port.name, ibv_port_state_str(port.attributes.state)));
      continue;
    }
    port.number = number;
    port.ethernet = port.attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    port.address.lid = port.attributes.lid;
    port.address.mtu = bytes_of(port.attributes.active_mtu);
    try {
      choose_gid(port);
      choose_pkey(port);
      return true;
    } catch (const Error& error) {
      reject(error.what());
    }
  }
  return false;
}

/// Can this process lock as much memory as a rank with a few links needs? Tried only if there is a limit.
std::string why_no_memory(ibv_context* device) {
  constexpr uint64_t kTried = uint64_t{16} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  ibv_pd* const domain = ibv_alloc_pd(device);
  if (domain == nullptr) return fmt::format("the device gives no protection domain: {}", std::strerror(errno));
  void* const memory = ::mmap(nullptr, kTried, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::string reason;
  if (memory != MAP_FAILED) {
    const int access = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr* const region = ibv_reg_mr(domain, memory, kTried, access);
    if (region == nullptr) reason = locked_memory_words(kTried, errno);
    if (region != nullptr) ibv_dereg_mr(region);
    ::munmap(memory, kTried);
  }
  ibv_dealloc_pd(domain);
  return reason;
}

/// −1: unknown.
int numa_node_of(const ibv_device& device) {
  int node = -1;
  std::ifstream(std::string(device.ibdev_path) + "/device/numa_node") >> node;
  return node;
}

}  // namespace

Port find_port(const topo::HostPlace& place) {
  int count = 0;
  const std::unique_ptr<ibv_device*, FreeDevices> all(ibv_get_device_list(&count));
  if (all == nullptr || count == 0) {
    throw_error(Code::Unsupported,
                "this host has no RDMA device: `ibv_devices` lists none. Load the device's driver (mlx5_ib, irdma, …) "
                "and ib_uverbs; a container needs /dev/infiniband");
  }
  std::string reasons;
  std::vector<Port> usable;
  std::vector<int> nodes;
  for (int i = 0; i < count; ++i) {
    Port port;
    if (!find_port_of(all.get()[i], port, reasons)) continue;
    usable.push_back(std::move(port));
    nodes.push_back(numa_node_of(*all.get()[i]));
  }
  if (usable.empty()) throw_error(Code::Unsupported, "no RDMA port can be used: {}", reasons);
  return std::move(usable[topo::share_out(nodes, tutti::numa_node_of(allowed_cores()), place).front()]);
}

std::string why_not() {
  try {
    const Port port = find_port({});
    return why_no_memory(port.device.get());
  } catch (const Error& error) {
    return error.what();
  }
}

std::string locked_memory_words(uint64_t bytes, int error) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if ((error == ENOMEM || error == EAGAIN) && limited) {
    return fmt::format(
        "the limit on locked memory is too small: {} bytes cannot be registered, and `ulimit -l` allows {} KiB. Raise "
        "it: `ulimit -l unlimited`, memlock in /etc/security/limits.conf, LimitMEMLOCK=infinity of the service",
        bytes, limit.rlim_cur / 1024);
  }
  return fmt::format("{} bytes cannot be registered: {}", bytes, std::strerror(error));
}

}  // namespace tutti::transports::verbs
