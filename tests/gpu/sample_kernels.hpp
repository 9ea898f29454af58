// The parameters of the sample kernels.
#pragma once

#include "exec/cuda/device.hpp"

struct SampleFill {
  uint32_t* to;
  uint32_t count, value;
};
