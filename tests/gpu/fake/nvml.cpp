// A stand-in for libnvidia-ml.so.1: the fake GPUs, and the NVLinks that FAKE_CUDA_LINKS gives them, three a pair.
#include <cstdio>
#include <utility>
#include <vector>

#include "config.hpp"

namespace {

// The part of NVML's interface that is used (docs.nvidia.com/deploy/nvml-api).
struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, pci_id, subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kInvalidArgument = 2, kNotSupported = 3;
constexpr int kLinksOfPair = 3, kGpu = 0;

int numbers[32];
int number_of(const void* device) { return static_cast<int>(static_cast<const int*>(device) - numbers); }

void put_address(int gpu, PciInfo* pci) {
  *pci = {};
  pci->bus = 0x10 + gpu;
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
}

// The GPU at the other end of a link; -1: there is no such link.
int peer(int gpu, unsigned link) {
  std::vector<int> peers;
  for (int other = 0; other < fake::config().devices; ++other) {
    if (fake::config().path(gpu, other) == fake::Path::NvLink) peers.insert(peers.end(), kLinksOfPair, other);
  }
  return link < peers.size() ? peers[link] : -1;
}

}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "an error of the fake"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(fake::config().devices);
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= static_cast<unsigned>(fake::config().devices)) return kInvalidArgument;
  *device = &numbers[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
  put_address(number_of(device), pci);
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "Fake H200");
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  const int capability = fake::config().capability(number_of(device));
  *major = capability / 10;
  *minor = capability % 10;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {fake::config().memory, fake::config().memory, 0};
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* state) {
  if (peer(number_of(device), link) < 0) return kNotSupported;
  *state = 1;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  const int other = peer(number_of(device), link);
  if (other < 0) return kNotSupported;
  put_address(other, pci);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* kind) {
  *kind = kGpu;
  return 0;
}
}
