// Twins of kernels: nccl-tests' verifiable.cu, whose threads do not wait for each other, compiled by a C++ compiler. It
// includes this file first, and says twin(kernel) where it takes a kernel's address for cudaLaunchKernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace nccl_tests {

extern thread_local uint3 thread_index, block_index, block_dim, grid_dim;

struct Twin {
  void (*run)(void* const* arguments);  ///< as one thread
  std::vector<std::shared_ptr<void>> (*copy)(void* const* arguments);
};

/// From now on this is the address of a kernel.
void add(const Twin* twin);

template <auto kKernel, class... Parameters>
struct Typed {
  template <size_t... kAt>
  static void call(void* const* arguments, std::index_sequence<kAt...>) {
    kKernel(*static_cast<Parameters*>(arguments[kAt])...);
  }
  template <size_t... kAt>
  static std::vector<std::shared_ptr<void>> copy(void* const* arguments, std::index_sequence<kAt...>) {
    return {std::make_shared<Parameters>(*static_cast<Parameters*>(arguments[kAt]))...};
  }
  static const Twin* made() {
    static const Twin kTwin{
        [](void* const* arguments) { call(arguments, std::index_sequence_for<Parameters...>()); },
        [](void* const* arguments) { return copy(arguments, std::index_sequence_for<Parameters...>()); }};
    static const bool kAdded = (add(&kTwin), true);
    (void)kAdded;
    return &kTwin;
  }
};
template <auto kKernel, class... Parameters>
const void* twin_with(void (*)(Parameters...)) {
  return Typed<kKernel, Parameters...>::made();
}
template <auto kKernel>
const void* twin() {
  return twin_with<kKernel>(kKernel);
}

}  // namespace nccl_tests

#ifdef NCCL_TESTS_KERNELS
#define __launch_bounds__(...)
#define threadIdx nccl_tests::thread_index
#define blockIdx nccl_tests::block_index
#define blockDim nccl_tests::block_dim
#define gridDim nccl_tests::grid_dim
#endif
