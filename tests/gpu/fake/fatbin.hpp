// What a fatbin has for which GPUs, and what a driver takes of it.
#pragma once

#include <cuda.h>

#include <vector>

namespace fake {

/// Machine code for a compute capability (90 for 9.0), or PTX for it and those after it.
struct Code {
  bool ptx = false;
  int capability = 0;
  int cuda = 0;  ///< of PTX: the first CUDA that has its version (13000 for 13.0)
};

/// None: it is no fatbin, but one image of a kernel. That is for every GPU here.
std::vector<Code> codes_of(const void* image);

/// What a driver for this CUDA takes for a GPU, or its error.
struct Taken {
  CUresult error = CUDA_SUCCESS;
  int binary = 0, ptx = 0;  ///< CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION
};
Taken take(const std::vector<Code>& codes, int capability, int cuda);

}  // namespace fake
