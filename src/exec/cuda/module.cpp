// Registers the module `cuda`: the backend for memory of GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "exec/cuda/allocations.hpp"
#include "exec/cuda/code.hpp"
#include "exec/cuda/cuda_backend.hpp"
#include "exec/cuda/kernels.hpp"
#include "transports/cuda/multicast.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::Device;
using tutti::cuda::driver;

/// What is said of GPUs, with their names: "GPU 0 (X), GPU 1 (X)" for what is true of both.
using Said = std::vector<std::pair<std::string, std::string>>;

void say(Said& said, const std::string& what, const std::string& gpu) {
  const auto same = std::find_if(said.begin(), said.end(), [&](const auto& one) { return one.first == what; });
  if (same != said.end()) {
    same->second += ", " + gpu;
  } else {
    said.emplace_back(what, gpu);
  }
}

/// Which code each GPU runs, and why the others run none.
struct GpusState {
  Said codes, why_not;
  bool all_multicast = true;
};
GpusState gpus_state() {
  int count = 0;
  driver().cuDeviceGetCount(&count);
  GpusState state;
  for (int i = 0; i < count; ++i) {
    const Device& device = Device::get(i);
    try {
      say(state.codes, code_on(device), device.name());
      state.all_multicast = state.all_multicast && tutti::cuda::why_no_multicast(device).empty();
    } catch (const Error& error) {
      say(state.why_not, error.what(), device.name());
    }
  }
  return state;
}

std::string state() {
  const std::string why_no_driver = tutti::cuda::why_no_driver();
  if (!why_no_driver.empty()) return "not usable: " + why_no_driver;
  const GpusState gpus = gpus_state();
  std::string names, codes, why_not;
  for (const auto& [code, gpu] : gpus.codes) {
    names += (names.empty() ? "" : ", ") + gpu;
    codes += (codes.empty() ? "" : ", ") + code + (gpus.codes.size() > 1 ? fmt::format(" ({})", gpu) : "");
  }
  for (const auto& [why, gpu] : gpus.why_not) why_not += fmt::format("{}{}: {}", why_not.empty() ? "" : "; ", gpu, why);
  if (codes.empty()) return "not usable: " + why_not;
  int version = 0;
  driver().cuDriverGetVersion(&version);
  return fmt::format("usable: {}; driver for CUDA {}; kernels: {}{}{}", names, cuda_text(version), codes,
                     gpus.all_multicast ? "; multicast memory (NVLink SHARP)" : "",
                     why_not.empty() ? "" : "; not usable: " + why_not);
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
