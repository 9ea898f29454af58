// Of a build without SimGrid.
#include "base/format.hpp"
#include "sim/network.hpp"

namespace tutti::sim {

void with_simgrid(std::span<const SharedResource> /*resources*/, std::span<const std::vector<uint32_t>> /*routes*/,
                  const std::function<void(Network&)>& /*run*/) {
  throw_error(Code::Unsupported,
              "this build has no SimGrid; install libsimgrid-dev and configure again, or use --engine fast");
}

std::string simgrid_version() { return ""; }

}  // namespace tutti::sim
