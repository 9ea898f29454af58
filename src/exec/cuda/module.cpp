// Registers the module `cuda`: the backend for memory of GPUs.
#include <fmt/format.h>

#include "base/format.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/kernels.hpp"
#include "transports/cuda/multicast.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::Device;
using tutti::cuda::driver;

std::string state() {
  const std::string why_not = tutti::cuda::why_no_driver();
  if (!why_not.empty()) return "not usable: " + why_not;
  int count = 0, version = 0;
  driver().cuDeviceGetCount(&count);
  driver().cuDriverGetVersion(&version);
  std::string text = "usable: ";
  bool all_multicast = true;
  for (int i = 0; i < count; ++i) {
    const Device& device = Device::get(i);
    text += (i > 0 ? ", " : "") + device.name();
    all_multicast = all_multicast && tutti::cuda::why_no_multicast(device).empty();
  }
  return fmt::format("{}; driver for CUDA {}.{}{}", text, version / 1000, version % 1000 / 10,
                     all_multicast ? "; multicast memory (NVLink SHARP)" : "");
}

const Method* const kMethods[] = {&methods::slots, &methods::get,         &methods::ll,
                                  &methods::ll128, &methods::copy_engine, &methods::nvls};

const BackendRegistration cuda({.name = "cuda",
                                .summary = "memory of GPUs that reach each other's, or their hosts' networks",
                                .is_driven = false,
                                .methods = kMethods,
                                .current = Device::current,
                                .why_none = "no GPU was current (cudaSetDevice) when the communicator was made",
                                .owns = owns,
                                .make = [](const BackendContext& context) -> std::unique_ptr<Backend> {
                                  return std::make_unique<CudaBackend>(context);
                                },
                                .allocate = allocate,
                                .release = release,
                                .state = state});

}  // namespace
}  // namespace tutti::exec::cuda
