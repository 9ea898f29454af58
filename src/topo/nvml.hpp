// GPUs and their NVLinks, as NVIDIA's management library reports them. It is loaded if it is there; nothing of CUDA is
// needed to build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/device.hpp"

namespace tutti::topo {

struct GpuReport {
  std::string address;  ///< PCI, as "0000:18:00.0"
  std::string model;
  int sm = 0;  ///< compute capability, 90 for 9.0
  uint64_t bytes = 0;
  struct NvLink {
    std::string peer;  ///< its PCI address; "hidden" in virtual machines that hide it
    NvLinks::Peer kind = NvLinks::Peer::Unknown;
  };
  std::vector<NvLink> links;  ///< those that are up
};

struct NvmlReport {
  std::vector<GpuReport> gpus;
  std::string problem;  ///< why it reports nothing; "" if it does, or if there is no such library
};

/// Takes milliseconds to a second, as the driver wakes the GPUs. `library`: its name or path.
NvmlReport read_nvml(const std::string& library = "libnvidia-ml.so.1");

}  // namespace tutti::topo
