// Which code of the kernels a GPU runs: a module has machine code for some GPUs, and PTX, which drivers compile for all
// others.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

namespace tutti::exec::cuda {

/// What the build has put into a fatbin. Compute capabilities are 90 for 9.0; versions of CUDA 13000 for 13.0.
struct ModuleCode {
  std::vector<int> native;  ///< with machine code, ascending; the PTX is of the first
  int toolkit = 0;          ///< the CUDA of the compiler
};

/// A GPU and its driver.
struct CodeTarget {
  int capability = 0;
  int driver = 0;  ///< the newest CUDA that the driver knows
};

/// "9.0"
std::string capability_text(int capability);
/// "13.0"
std::string cuda_text(int version);
/// "8.0, 9.0"
std::string capabilities_text(const std::vector<int>& capabilities);
/// Has the module machine code that the GPU runs: of its own major version, and of no greater minor one?
bool has_native(const ModuleCode& code, int capability);
/// Why the driver did not load the code: because of the driver or of the GPU; and what to do. `said`: the driver's
/// words for `result`.
std::string why_not_loaded(const ModuleCode& code, const CodeTarget& target, CUresult result, const std::string& said);

}  // namespace tutti::exec::cuda
