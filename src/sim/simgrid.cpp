// Loads the module of SimGrid when it is first asked for.
#include <dlfcn.h>

#include <cstring>

#include "base/format.hpp"
#include "base/version.hpp"
#include "sim/network.hpp"
#include "sim/simgrid_module.hpp"

namespace tutti::sim {
namespace {

struct Loaded {
  const SimGridModule* module = nullptr;
  std::string why_not;
};

/// The program's run path leads to it: the folder tutti beside libtutti.so.
Loaded load() {
  constexpr const char* kFile = "libtutti_simgrid.so";
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);  // stays: SimGrid's state is of the process
  if (handle == nullptr) return {.why_not = ::dlerror()};
  const auto function = reinterpret_cast<const SimGridModule* (*)()>(::dlsym(handle, kSimGridSymbol));
  if (function == nullptr) return {.why_not = fmt::format("{} has no symbol {}", kFile, kSimGridSymbol)};
  const SimGridModule* const module = function();
  if (std::strcmp(module->tutti, version()) == 0) return {.module = module};
  return {.why_not = fmt::format("{} is of Tutti {}, and this is Tutti {}", kFile, module->tutti, version())};
}

const Loaded& simgrid() {
  static const Loaded kLoaded = load();
  return kLoaded;
}

}  // namespace

void with_simgrid(std::span<const SharedResource> resources, std::span<const std::vector<uint32_t>> routes,
                  const std::function<void(Network&)>& run) {
  if (simgrid().module == nullptr) {
    throw_error(Code::Unsupported,
                "SimGrid cannot be used ({}); install libsimgrid-dev, configure and build again, or use --engine fast",
                simgrid().why_not);
  }
  simgrid().module->run(resources, routes, run);
}

std::string simgrid_version() { return simgrid().module == nullptr ? "" : simgrid().module->simgrid; }

}  // namespace tutti::sim
