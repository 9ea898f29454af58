#include "exec/cuda/code.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "transports/cuda/driver.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr int kMajorOfCuda = 1000, kMajorOfGpu = 10;

/// Of PTX that the driver was to compile.
std::string why_not_compiled(const ModuleCode& code, const CodeTarget& target, CUresult result) {
  const std::string remedy =
      fmt::format("build Tutti with machine code for it (cmake -DTUTTI_CUDA_ARCHITECTURES={})", target.capability);
  if (result == CUDA_ERROR_JIT_COMPILATION_DISABLED) {
    return fmt::format("the driver may not compile PTX: unset CUDA_DISABLE_PTX_JIT, or {}", remedy);
  }
  if (result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND) {
    return fmt::format(
        "the driver's compiler for PTX is not installed: install libnvidia-ptxjitcompiler.so.1 of the "
        "same version as the driver, or {}",
        remedy);
  }
  if (target.driver < code.toolkit) {
    return fmt::format(
        "the driver is too old to compile the PTX of CUDA {}: it is for CUDA {}. Install driver {} or "
        "later, or build Tutti with CUDA {} or earlier, or with machine code for this GPU",
        cuda_text(code.toolkit), cuda_text(target.driver), tutti::cuda::driver_for(code.toolkit),
        cuda_text(target.driver));
  }
  return fmt::format("the driver did not compile the PTX: {}", remedy);
}

}  // namespace

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / kMajorOfGpu, capability % kMajorOfGpu);
}

std::string cuda_text(int version) { return fmt::format("{}.{}", version / kMajorOfCuda, version % kMajorOfCuda / 10); }

std::string capabilities_text(const std::vector<int>& capabilities) {
  std::string text;
  for (const int capability : capabilities) text += (text.empty() ? "" : ", ") + capability_text(capability);
  return text;
}

bool has_native(const ModuleCode& code, int capability) {
  return std::any_of(code.native.begin(), code.native.end(), [capability](int native) {
    return native / kMajorOfGpu == capability / kMajorOfGpu && native <= capability;
  });
}

std::string why_not_loaded(const ModuleCode& code, const CodeTarget& target, CUresult result, const std::string& said) {
  const int least = code.native.front();
  std::string why;
  if (target.capability < least) {
    why = fmt::format("the GPU is too old: it has compute capability {}, and the kernels need {} or later",
                      capability_text(target.capability), capability_text(least));
  } else if (!has_native(code, target.capability)) {
    why = fmt::format("for its compute capability {} the module has PTX alone (machine code for {}), and {}",
                      capability_text(target.capability), capabilities_text(code.native),
                      why_not_compiled(code, target, result));
  } else if (target.driver / kMajorOfCuda < code.toolkit / kMajorOfCuda) {
    why = fmt::format(
        "the driver is too old: it is for CUDA {}, and the kernels were compiled with CUDA {}. Install "
        "driver {} or later, or build Tutti with CUDA {} or earlier",
        cuda_text(target.driver), cuda_text(code.toolkit), tutti::cuda::driver_for(code.toolkit),
        cuda_text(target.driver));
  } else {
    why = fmt::format(
        "the module has machine code for its compute capability {}, which the driver (for CUDA {}) did "
        "not load; reinstall libtutti_cuda.so",
        capability_text(target.capability), cuda_text(target.driver));
  }
  return fmt::format("{}. The driver says {}", why, said);
}

}  // namespace tutti::exec::cuda
