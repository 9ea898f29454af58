#include "exec/cuda/kernels.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/format.hpp"
#include "tutti/types.hpp"

extern "C" const unsigned char tutti_cuda_kernels[];  // a fatbin, embedded by the build

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::Device;
using tutti::cuda::driver;

using Kernels = std::map<std::string, CUfunction>;
constexpr const char* kKinds[] = {"tutti_lanes_", "tutti_lines_", "tutti_short_"};  // by KernelKind

/// Of all devices.
CUlibrary library() {
  static const CUlibrary kLibrary = [] {
    CUlibrary made = nullptr;
    const CUresult result =
        driver().cuLibraryLoadData(&made, tutti_cuda_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS) {
      throw_error(Code::Unsupported,
                  "the GPU cannot run Tutti's kernels, which are for compute capability 8.0 and later: {}",
                  driver().describe(result));
    }
    return made;
  }();
  return kLibrary;
}

Kernels load(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  Kernels kernels;
  for (int type = 0; type < kDTypes; ++type) {
    for (const char* const kind : kKinds) {
      const std::string name = std::string(kind) + name_of(static_cast<DType>(type));
      CUkernel kernel = nullptr;
      CUfunction function = nullptr;
      check(driver().cuLibraryGetKernel(&kernel, library(), name.c_str()), "a kernel is missing");
      check(driver().cuKernelGetFunction(&function, kernel), "a kernel cannot be loaded");
      kernels[name] = function;
    }
  }
  return kernels;
}

const Kernels& kernels_of(const Device& device) {
  static auto* const kMutex = new std::mutex;
  static auto* const kAll = new std::map<int, Kernels>;
  const std::lock_guard lock(*kMutex);
  const auto known = kAll->find(device.number());
  return known != kAll->end() ? known->second : (*kAll)[device.number()] = load(device);
}

}  // namespace

void load_kernels(const Device& device) { kernels_of(device); }

CUfunction lanes_kernel(const Device& device, const std::string& type, KernelKind kind) {
  return kernels_of(device).at(kKinds[static_cast<size_t>(kind)] + type);
}

uint32_t resident_blocks(const Device& device, uint32_t threads) {
  const tutti::cuda::WithContext with(device.context());
  int fewest = 1 << 20;
  for (const auto& [name, function] : kernels_of(device)) {
    int blocks = 0;
    check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, static_cast<int>(threads), 0),
          "a kernel's occupancy is unknown");
    fewest = std::min(fewest, blocks);
  }
  return static_cast<uint32_t>(fewest * device.multiprocessors());
}

}  // namespace tutti::exec::cuda
