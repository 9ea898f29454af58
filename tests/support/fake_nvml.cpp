// A stand-in for libnvidia-ml.so.1: two GPUs with 18 NVLinks each. FAKE_NVML: "pair" (to each other), "hidden" (to
// NVSwitches that a virtual machine hides), "broken" (no driver); else to two NVSwitches.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, pci_id, subsystem_id;
  char bus_id[32];
};

int numbers[2] = {0, 1};
bool mode(std::string_view word) {
  const char* const value = std::getenv("FAKE_NVML");
  return value != nullptr && word == value;
}
int number_of(void* device) { return *static_cast<int*>(device); }
void put(PciInfo* pci, const char* bus_id) { std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", bus_id); }
const char* address_of(int gpu) { return gpu == 0 ? "00000000:03:00.0" : "00000000:81:00.0"; }

constexpr int kDriverNotLoaded = 9, kNotSupported = 3;

}  // namespace

extern "C" {
int nvmlInit_v2() { return mode("broken") ? kDriverNotLoaded : 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int result) { return result == kDriverNotLoaded ? "Driver Not Loaded" : "Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &numbers[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) {
  put(pci, address_of(number_of(device)));
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "NVIDIA H100 80GB HBM3");
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 85ULL << 30;
  return 0;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* state) {
  if (link >= 18) return kNotSupported;
  *state = 1;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  if (mode("pair")) {
    put(pci, address_of(1 - number_of(device)));
  } else if (mode("hidden")) {
    put(pci, link % 2 == 0 ? "" : "FFFFFFF:FF:FF.0");
  } else {
    put(pci, link < 9 ? "00000000:C5:00.0" : "00000000:C6:00.0");
  }
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* kind) {
  if (mode("hidden")) return kNotSupported;
  *kind = mode("pair") ? 0 : 2;
  return 0;
}
}
