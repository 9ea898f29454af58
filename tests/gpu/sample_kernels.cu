// Small kernels that use every function of exec/cuda/device.hpp: compiled for devices, and as twins for the fake driver's tests.
#include "sample_kernels.hpp"

using namespace tutti;

TUTTI_KERNEL(sample_fill, SampleFill, 256) {
  const uint32_t first = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  for (uint32_t i = first; i < arguments.count; i += gpu::grid_size() * gpu::block_size()) {
    arguments.to[i] = arguments.value + i;
  }
}
