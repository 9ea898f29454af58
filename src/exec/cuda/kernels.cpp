#include "exec/cuda/kernels.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include "base/format.hpp"
#include "exec/cuda/code.hpp"
#include "exec/cuda/multimem_call.hpp"
#include "exec/gpu/image.hpp"
#include "link/ll.hpp"
#include "tutti/types.hpp"

// Fatbins, embedded by the build.
extern "C" const unsigned char tutti_cuda_lanes_integers[];
extern "C" const unsigned char tutti_cuda_lanes_floats[];
extern "C" const unsigned char tutti_cuda_multimem[];
extern "C" const unsigned char tutti_cuda_windows[];

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::check;
using tutti::cuda::Device;
using tutti::cuda::driver;

using Kernels = std::map<std::string, LoadedKernel>;
constexpr const char* kKinds[] = {"tutti_lanes_", "tutti_ll_", "tutti_short_"};  // by KernelKind
constexpr uint64_t kFewestThreads = 256;  // of a short call: they load its tables at once
constexpr const char* kBatch = "tutti_batch_ll_";
constexpr const char* kMultimem = "tutti_multimem_";
constexpr const char* kWindow = "tutti_window_atomic";

/// A fatbin. Its library is of all devices.
class Module {
 public:
  Module(const unsigned char* image, ModuleCode code) : image_(image), code_(std::move(code)) {}

  /// Throws Error(Unsupported) if the device does not run the code. The device's context is current.
  LoadedKernel kernel(const Device& device, const std::string& name) {
    LoadedKernel found;
    expect(driver().cuLibraryGetKernel(&found.kernel, library(device), name.c_str()), device);
    expect(driver().cuKernelGetFunction(&found.function, found.kernel), device);
    return found;
  }

  /// Which code the device runs as this kernel.
  std::string code_of(const Device& device, const LoadedKernel& kernel) const {
    const auto attribute = [&](CUfunction_attribute which) {
      int value = 0;
      check(driver().cuKernelGetAttribute(&value, which, kernel.kernel, device.handle()), "a kernel's code is unknown");
      return value;
    };
    const int binary = attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    if (std::find(code_.native.begin(), code_.native.end(), binary) != code_.native.end()) {
      return fmt::format("machine code for compute capability {}", capability_text(binary));
    }
    return fmt::format("PTX for compute capability {}, which the driver compiled for {}",
                       capability_text(attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION)), capability_text(binary));
  }

 private:
  CUlibrary library(const Device& device) {
    const std::lock_guard lock(mutex_);
    if (library_ == nullptr) {
      expect(driver().cuLibraryLoadData(&library_, image_, nullptr, nullptr, 0, nullptr, nullptr, 0), device);
    }
    return library_;
  }

  void expect(CUresult result, const Device& device) const {
    if (result == CUDA_SUCCESS) return;
    if (result == CUDA_ERROR_OUT_OF_MEMORY) check(result, "the kernels cannot be loaded");
    int version = 0;
    driver().cuDriverGetVersion(&version);
    const CodeTarget target{device.capability(), version};
    throw Error(Code::Unsupported, why_not_loaded(code_, target, result, driver().describe(result)));
  }

  const unsigned char* const image_;
  const ModuleCode code_;
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
};

Module& integers() {
  static auto* const kModule = new Module(tutti_cuda_lanes_integers, {{TUTTI_LANES_CODE}, TUTTI_NVCC});
  return *kModule;
}
Module& floats() {
  static auto* const kModule = new Module(tutti_cuda_lanes_floats, {{TUTTI_LANES_CODE}, TUTTI_NVCC});
  return *kModule;
}
Module& multimem() {
  static auto* const kModule = new Module(tutti_cuda_multimem, {{TUTTI_MULTIMEM_CODE}, TUTTI_NVCC});
  return *kModule;
}
Module& windows() {
  static auto* const kModule = new Module(tutti_cuda_windows, {{TUTTI_LANES_CODE}, TUTTI_NVCC});
  return *kModule;
}

Kernels load(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  Kernels kernels;
  for (int type = 0; type < kDTypes; ++type) {
    const auto element = static_cast<DType>(type);
    Module& module = kind_of(element) == TypeKind::Float ? floats() : integers();
    for (const char* const kind : kKinds) {
      const std::string name = std::string(kind) + name_of(element);
      kernels[name] = module.kernel(device, name);
    }
    const auto is_its = [&](std::string_view batched) { return batched == name_of(element); };
    if (std::none_of(std::begin(gpu::kBatchTypes), std::end(gpu::kBatchTypes), is_its)) continue;
    const std::string name = std::string(kBatch) + name_of(element);
    kernels[name] = module.kernel(device, name);
  }
  return kernels;
}

Kernels load_multimem(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  Kernels kernels;
  for (const char* const operation : kMultimemOperations) {
    const std::string name = std::string(kMultimem) + operation;
    kernels[name] = multimem().kernel(device, name);
  }
  return kernels;
}

Kernels load_window(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  return {{kWindow, windows().kernel(device, kWindow)}};
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

std::string code_on(const Device& device) {
  const tutti::cuda::WithContext with(device.context());
  return integers().code_of(device, integers().kernel(device, "tutti_short_u32"));
}

void load_kernels(const Device& device) try { kernels_of(device); } catch (const Error& error) {
  throw_error(error.code(), "{} cannot run Tutti's kernels: {}", device.name(), error.what());
}
void load_multimem_kernels(const Device& device) try { multimem_kernels_of(device); } catch (const Error& error) {
  throw_error(error.code(), "{} cannot run the kernels for multicast memory: {}", device.name(), error.what());
}

LoadedKernel lanes_kernel(const Device& device, const std::string& type, gpu::KernelKind kind) {
  const auto& known = kernels_of(device);
  const auto found = known.find(kKinds[static_cast<size_t>(kind)] + type);
  if (found == known.end()) throw_error(Code::InternalError, "no kernel folds elements of type {} on GPUs", type);
  return found->second;
}

LoadedKernel batch_kernel(const Device& device, const std::string& type) {
  const auto& known = kernels_of(device);
  const auto found = known.find(kBatch + type);
  return found == known.end() ? LoadedKernel() : found->second;
}

LoadedKernel multimem_kernel(const Device& device, const std::string& operation) {
  return multimem_kernels_of(device).at(kMultimem + operation);
}

LoadedKernel window_kernel(const Device& device) {
  static auto* const kLoaded = new Loaded(load_window);
  return kLoaded->of(device).at(kWindow);
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

namespace {

/// Does any link of the program lie on this link lane, or on a later one?
bool any_link(const Program& program, uint32_t lane) {
  const auto is_there = [lane](const LinkId& link) { return link.link_lane >= lane; };
  return std::any_of(program.out_links.begin(), program.out_links.end(), is_there) ||
         std::any_of(program.in_links.begin(), program.in_links.end(), is_there);
}

}  // namespace

gpu::KernelKind kind_of(const Program& program) {
  if (!any_link(program, link::kLlLanes)) return gpu::KernelKind::Slots;
  return gpu::runs_straight(program) && !any_link(program, link::kLl128Lanes) ? gpu::KernelKind::Short
                                                                              : gpu::KernelKind::Ll;
}

uint16_t threads_for(const Program& program) {
  if (!gpu::runs_straight(program)) return 0;
  uint64_t most = 0;
  for (const Instruction& op : program.last.ops) {
    most = std::max(most, link::lines_of(op.bytes) * std::max(1U, op.outs.end - op.outs.begin));
  }
  return static_cast<uint16_t>(std::clamp<uint64_t>(std::bit_ceil(most), kFewestThreads, gpu::kMaxThreads));
}

uint32_t resident_blocks(const Device& device, uint32_t threads) {
  const tutti::cuda::WithContext with(device.context());
  int fewest = 1 << 20;
  for (const auto& [name, kernel] : kernels_of(device)) {
    int blocks = 0;
    check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, static_cast<int>(threads),
                                                               gpu::kSharedBytes),
          "a kernel's occupancy is unknown");
    fewest = std::min(fewest, blocks);
  }
  return static_cast<uint32_t>(fewest * device.multiprocessors());
}

}  // namespace tutti::exec::cuda
