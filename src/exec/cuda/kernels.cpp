#include "exec/cuda/kernels.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/format.hpp"
#include "exec/cuda/multimem_call.hpp"
#include "tutti/types.hpp"

// Fatbins, embedded by the build.
extern "C" const unsigned char tutti_cuda_kernels[];
extern "C" const unsigned char tutti_cuda_multimem_kernels[];

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::Device;
using tutti::cuda::driver;

using Kernels = std::map<std::string, LoadedKernel>;
constexpr const char* kKinds[] = {"tutti_lanes_", "tutti_ll_", "tutti_short_"};  // by KernelKind
constexpr const char* kMultimem = "tutti_multimem_";

CUlibrary load_library(const void* image) {
  CUlibrary made = nullptr;
  const CUresult result = driver().cuLibraryLoadData(&made, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    throw_error(Code::Unsupported,
                "the GPU cannot run Tutti's kernels, which are for compute capability 8.0 and later (for multicast "
                "memory, 9.0): {}",
                driver().describe(result));
  }
  return made;
}

// Of all devices.
CUlibrary library() {
  static const CUlibrary kLibrary = load_library(tutti_cuda_kernels);
  return kLibrary;
}
CUlibrary multimem_library() {
  static const CUlibrary kLibrary = load_library(tutti_cuda_multimem_kernels);
  return kLibrary;
}

void load(CUlibrary library, const std::string& name, Kernels& kernels) {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  check(driver().cuLibraryGetKernel(&kernel, library, name.c_str()), "a kernel is missing");
  check(driver().cuKernelGetFunction(&function, kernel), "a kernel cannot be loaded");
  kernels[name] = {function, kernel};
}

Kernels load(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  Kernels kernels;
  for (int type = 0; type < kDTypes; ++type) {
    for (const char* const kind : kKinds)
      load(library(), std::string(kind) + name_of(static_cast<DType>(type)), kernels);
  }
  return kernels;
}

Kernels load_multimem(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  Kernels kernels;
  for (const char* const operation : kMultimemOperations)
    load(multimem_library(), std::string(kMultimem) + operation, kernels);
  return kernels;
}

/// Those of one library, by device.
class Loaded {
 public:
  explicit Loaded(Kernels (*load)(const Device& device)) : load_(load) {}
  const Kernels& of(const Device& device) {
    const std::lock_guard lock(mutex_);
    const auto known = all_.find(device.number());
    return known != all_.end() ? known->second : all_[device.number()] = load_(device);
  }

 private:
  Kernels (*const load_)(const Device& device);
  std::mutex mutex_;
  std::map<int, Kernels> all_;
};

const Kernels& kernels_of(const Device& device) {
  static auto* const kLoaded = new Loaded(load);
  return kLoaded->of(device);
}
const Kernels& multimem_kernels_of(const Device& device) {
  static auto* const kLoaded = new Loaded(load_multimem);
  return kLoaded->of(device);
}

}  // namespace

void load_kernels(const Device& device) { kernels_of(device); }
void load_multimem_kernels(const Device& device) { multimem_kernels_of(device); }

LoadedKernel lanes_kernel(const Device& device, const std::string& type, gpu::KernelKind kind) {
  const auto& known = kernels_of(device);
  const auto found = known.find(kKinds[static_cast<size_t>(kind)] + type);
  if (found == known.end()) throw_error(Code::InternalError, "no kernel folds elements of type {} on GPUs", type);
  return found->second;
}

LoadedKernel multimem_kernel(const Device& device, const std::string& operation) {
  return multimem_kernels_of(device).at(kMultimem + operation);
}

const char* word_of(uint32_t element_bytes) {
  switch (element_bytes) {
    case 2:
      return "u16";
    case 4:
      return "u32";
    case 8:
      return "u64";
    case 1:
      return "u8";
    default:
      throw_error(Code::InternalError, "no kernel moves elements of {} bytes on GPUs", element_bytes);
  }
}

std::string kernel_type(const Reduction& reduction) {
  return acts_on_bits(reduction.op) ? word_of(static_cast<uint32_t>(size_of(reduction.type))) : name_of(reduction.type);
}

gpu::KernelKind kind_of(const Program& program) {
  const auto in_lines = [](const LinkId& link) { return link.link_lane >= link::kLlLanes; };
  const auto in_ll128 = [](const LinkId& link) { return link.link_lane >= link::kLl128Lanes; };
  const auto& outs = program.out_links;
  const auto& ins = program.in_links;
  if (std::none_of(outs.begin(), outs.end(), in_lines) && std::none_of(ins.begin(), ins.end(), in_lines)) {
    return gpu::KernelKind::Slots;
  }
  const bool all = std::all_of(outs.begin(), outs.end(), in_lines) && std::all_of(ins.begin(), ins.end(), in_lines);
  const bool whole = std::any_of(outs.begin(), outs.end(), in_ll128) || std::any_of(ins.begin(), ins.end(), in_ll128);
  return all && !whole && program.width == 1 && program.last.lanes.size() == 1 ? gpu::KernelKind::Short
                                                                               : gpu::KernelKind::Ll;
}

uint32_t resident_blocks(const Device& device, uint32_t threads) {
  const tutti::cuda::WithContext with(device.context());
  int fewest = 1 << 20;
  for (const auto& [name, kernel] : kernels_of(device)) {
    int blocks = 0;
    check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, static_cast<int>(threads), 0),
          "a kernel's occupancy is unknown");
    fewest = std::min(fewest, blocks);
  }
  return static_cast<uint32_t>(fewest * device.multiprocessors());
}

}  // namespace tutti::exec::cuda
