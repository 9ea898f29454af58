// The kernels, loaded once for each device of the process: before any of them runs, since loading waits for kernels.
#pragma once

#include <cstdint>
#include <string>

#include "exec/execution.hpp"
#include "exec/gpu/lanes.hpp"
#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

/// A kernel on a device.
struct LoadedKernel {
  CUfunction function = nullptr;  ///< in the primary context, loaded
  CUkernel kernel = nullptr;
  /// For streams of green contexts: the driver takes the context from the stream.
  CUfunction of_any_context() const { return reinterpret_cast<CUfunction>(kernel); }
};

/// Which code the device runs: "machine code for compute capability 9.0", or PTX that its driver has compiled. Loads a
/// kernel. Throws Error(Unsupported) with the reason alone if the device runs none.
std::string code_on(const tutti::cuda::Device& device);
/// The kernel that runs lanes whose elements have the type of this name. Throws Error(Unsupported) if the device cannot
/// run it.
LoadedKernel lanes_kernel(const tutti::cuda::Device& device, const std::string& type, gpu::KernelKind kind);
/// The one that runs several calls in turn, none of which reads in place; without functions: there is none.
LoadedKernel batch_kernel(const tutti::cuda::Device& device, const std::string& type);
/// The type of this size for programs that fold nothing, or bits.
const char* word_of(uint32_t element_bytes);
/// The type whose kernel folds elements so.
std::string kernel_type(const Reduction& reduction);
gpu::KernelKind kind_of(const Program& program);
/// LanesCall::threads.
uint16_t threads_for(const Program& program);
/// Loads all of them.
void load_kernels(const tutti::cuda::Device& device);
/// Those that fold through a switch (exec/cuda/multimem.cu), by the operation's name; loaded apart, since few devices
/// can run them.
LoadedKernel multimem_kernel(const tutti::cuda::Device& device, const std::string& operation);
void load_multimem_kernels(const tutti::cuda::Device& device);
/// Makes an atomic step on a window (exec/cuda/window_atomic.hpp).
LoadedKernel window_kernel(const tutti::cuda::Device& device);
/// Blocks of so many threads of any kernel that the device runs at the same time.
uint32_t resident_blocks(const tutti::cuda::Device& device, uint32_t threads);

}  // namespace tutti::exec::cuda
