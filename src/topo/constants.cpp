#include "topo/constants.hpp"

namespace tutti {

std::vector<ConstantInfo> constant_table() {
  const MachineConstants& in_use = machine_constants();
  return {
#define TUTTI_CONSTANT(scope, type, name, value, unit, meaning, measured) \
  {#name, static_cast<double>(in_use.name), unit, ConstantScope::scope, meaning, measured},
#include "topo/constants.def"
  };
}

}  // namespace tutti
