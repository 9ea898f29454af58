// What libtutti_simgrid.so exports. SimGrid is a module because it loads some twenty libraries, which takes longer than
// most commands of `tutti` do: only simulations that want it pay for it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/network.hpp"

namespace tutti::sim {

struct SimGridModule {
  const char* tutti;    ///< the version it was built for, whose Network it has
  const char* simgrid;  ///< "3.32"
  /// with_simgrid() of network.hpp.
  void (*run)(std::span<const SharedResource> resources, std::span<const std::vector<uint32_t>> routes,
              const std::function<void(Network&)>& run);
};

inline constexpr const char* kSimGridSymbol = "tutti_module";

}  // namespace tutti::sim
