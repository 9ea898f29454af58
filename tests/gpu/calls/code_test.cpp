// Why a GPU does not run the kernels' code: the text names the driver or the GPU, whichever it is.
#include "exec/cuda/code.hpp"

#include <gtest/gtest.h>

namespace tutti::exec::cuda {
namespace {

const ModuleCode kOfCuda13{{80, 90, 100, 120}, 13000};
const ModuleCode kOfCuda12{{80, 90}, 12080};

std::string why(const ModuleCode& code, int capability, int driver, CUresult result) {
  return why_not_loaded(code, {capability, driver}, result, "SAID");
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(KernelCode, IsNativeWithinAMajorVersion) {
  for (const int capability : {80, 86, 89, 90, 100, 103, 120, 121}) EXPECT_TRUE(has_native(kOfCuda13, capability));
  for (const int capability : {75, 110, 130}) EXPECT_FALSE(has_native(kOfCuda13, capability));
  EXPECT_FALSE(has_native({{86}, 13000}, 80)) << "a lesser minor version";
}

TEST(KernelCode, NamesAGpuThatIsTooOld) {
  const std::string text = why(kOfCuda13, 75, 13000, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_TRUE(has(text, "the GPU is too old: it has compute capability 7.5, and the kernels need 8.0")) << text;
  EXPECT_TRUE(has(text, "SAID")) << text;
  EXPECT_FALSE(has(text, "the driver is")) << text;
}

TEST(KernelCode, NamesADriverThatIsOlderThanTheMachineCode) {
  const std::string text = why(kOfCuda13, 90, 12040, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_TRUE(has(text, "the driver is too old: it is for CUDA 12.4, and the kernels were compiled with CUDA 13.0"))
      << text;
  EXPECT_TRUE(has(text, "Install driver 580 or later, or build Tutti with CUDA 12.4 or earlier")) << text;
  EXPECT_FALSE(has(text, "the GPU is")) << text;
}

TEST(KernelCode, NamesADriverThatIsOlderThanThePtx) {
  const std::string text = why(kOfCuda12, 100, 12040, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_TRUE(has(text, "for its compute capability 10.0 the module has PTX alone (machine code for 8.0, 9.0)"))
      << text;
  EXPECT_TRUE(has(text, "the driver is too old to compile the PTX of CUDA 12.8: it is for CUDA 12.4")) << text;
  EXPECT_TRUE(has(text, "Install driver 570 or later")) << text;
}

TEST(KernelCode, SaysWhyPtxIsNotCompiled) {
  EXPECT_TRUE(has(why(kOfCuda12, 100, 13000, CUDA_ERROR_JIT_COMPILATION_DISABLED), "unset CUDA_DISABLE_PTX_JIT"));
  EXPECT_TRUE(
      has(why(kOfCuda12, 100, 13000, CUDA_ERROR_JIT_COMPILER_NOT_FOUND), "install libnvidia-ptxjitcompiler.so.1"));
  const std::string text = why(kOfCuda12, 100, 13000, CUDA_ERROR_INVALID_PTX);
  EXPECT_TRUE(
      has(text, "did not compile the PTX: build Tutti with machine code for it (cmake -DTUTTI_CUDA_ARCHITECTURES=100)"))
      << text;
}

TEST(KernelCode, OfAModuleThatIsDamagedIsNeither) {
  const std::string text = why(kOfCuda13, 90, 13000, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_TRUE(has(text, "machine code for its compute capability 9.0, which the driver (for CUDA 13.0) did not load"))
      << text;
  EXPECT_FALSE(has(text, "too old")) << text;
}

}  // namespace
}  // namespace tutti::exec::cuda
