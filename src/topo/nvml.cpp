#include "topo/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <cctype>
#include <string_view>

#include "base/format.hpp"

namespace tutti::topo {
namespace {

// The part of NVML's interface that is used (docs.nvidia.com/deploy/nvml-api), which NVIDIA keeps binary compatible.
using Result = int;  // 0: success
using Device = void*;
struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, pci_id, subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr unsigned kMaxNvLinks = 18, kMaxGpus = 64;
constexpr int kEnabled = 1;
constexpr int kGpu = 0, kNpu = 1, kSwitch = 2;  // nvmlIntNvLinkDeviceType_t

class Nvml {
 public:
  explicit Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    find(init_, "nvmlInit_v2");
    find(shutdown_, "nvmlShutdown");
    find(error_text_, "nvmlErrorString");
    find(count_, "nvmlDeviceGetCount_v2");
    find(device_, "nvmlDeviceGetHandleByIndex_v2");
    find(pci_, "nvmlDeviceGetPciInfo_v3");
    find(name_, "nvmlDeviceGetName");
    find(capability_, "nvmlDeviceGetCudaComputeCapability");
    find(memory_, "nvmlDeviceGetMemoryInfo");
    find(link_state_, "nvmlDeviceGetNvLinkState");
    find(link_peer_, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    find(link_peer_kind_, "nvmlDeviceGetNvLinkRemoteDeviceType");
  }

  NvmlReport read() const {
    NvmlReport report;
    if (library_ == nullptr) return report;
    if (init_ == nullptr || count_ == nullptr || device_ == nullptr || pci_ == nullptr) {
      report.problem = "NVML lacks functions that every version has since 2019";
      return report;
    }
    const Result started = init_();
    if (started != 0) {
      report.problem = fmt::format("NVML cannot start: {}", error_text(started));
      return report;
    }
    unsigned gpus = 0;
    const Result counted = count_(&gpus);
    if (counted != 0) report.problem = fmt::format("NVML cannot count GPUs: {}", error_text(counted));
    for (unsigned i = 0; i < gpus && i < kMaxGpus; ++i) {
      Device device = nullptr;
      PciInfo pci{};
      if (device_(i, &device) != 0 || pci_(device, &pci) != 0) continue;  // not for this container
      report.gpus.push_back(read_gpu(device, text_of(pci.bus_id)));
    }
    if (shutdown_ != nullptr) shutdown_();
    return report;
  }

 private:
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  std::string error_text(Result result) const {
    return error_text_ == nullptr ? fmt::format("error {}", result) : error_text_(result);
  }
  template <size_t kRoom>
  static std::string text_of(const char (&text)[kRoom]) {
    const std::string_view all(text, kRoom);
    return std::string(all.substr(0, all.find('\0')));
  }

  GpuReport read_gpu(Device device, const std::string& address) const {
    GpuReport gpu{.address = address_of(address)};
    std::array<char, 128> name{};
    if (name_ != nullptr && name_(device, name.data(), name.size() - 1) == 0) gpu.model = name.data();
    int major = 0, minor = 0;
    if (capability_ != nullptr && capability_(device, &major, &minor) == 0) gpu.sm = major * 10 + minor;
    Memory memory{};
    if (memory_ != nullptr && memory_(device, &memory) == 0) gpu.bytes = memory.total;
    for (unsigned link = 0; link < kMaxNvLinks && link_state_ != nullptr && link_peer_ != nullptr; ++link) {
      int state = 0;
      PciInfo peer{};
      if (link_state_(device, link, &state) != 0 || state != kEnabled) continue;
      if (link_peer_(device, link, &peer) != 0) continue;
      gpu.links.push_back({peer_address(peer), peer_kind(device, link)});
    }
    return gpu;
  }

  /// NVSwitches that a virtual machine hides have no address, or one of no sense.
  static std::string peer_address(const PciInfo& peer) {
    const std::string address = address_of(text_of(peer.bus_id));
    for (const char c : address) {
      if (std::isprint(static_cast<unsigned char>(c)) == 0) return "hidden";
    }
    return address.empty() || address.starts_with("fffffff") ? "hidden" : address;
  }

  NvLinks::Peer peer_kind(Device device, unsigned link) const {
    int kind = -1;
    if (link_peer_kind_ == nullptr || link_peer_kind_(device, link, &kind) != 0) return NvLinks::Peer::Unknown;
    if (kind == kGpu) return NvLinks::Peer::Gpu;
    if (kind == kSwitch) return NvLinks::Peer::Switch;
    return kind == kNpu ? NvLinks::Peer::Processor : NvLinks::Peer::Unknown;
  }

  void* library_;  // never closed: a driver's library may keep what it has made
  Result (*init_)() = nullptr;
  Result (*shutdown_)() = nullptr;
  const char* (*error_text_)(Result) = nullptr;
  Result (*count_)(unsigned*) = nullptr;
  Result (*device_)(unsigned, Device*) = nullptr;
  Result (*pci_)(Device, PciInfo*) = nullptr;
  Result (*name_)(Device, char*, unsigned) = nullptr;
  Result (*capability_)(Device, int*, int*) = nullptr;
  Result (*memory_)(Device, Memory*) = nullptr;
  Result (*link_state_)(Device, unsigned, int*) = nullptr;
  Result (*link_peer_)(Device, unsigned, PciInfo*) = nullptr;
  Result (*link_peer_kind_)(Device, unsigned, int*) = nullptr;
};

}  // namespace

NvmlReport read_nvml(const std::string& library) { return Nvml(library).read(); }

}  // namespace tutti::topo
