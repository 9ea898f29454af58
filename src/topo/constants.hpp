// The numbers that were measured or chosen: costs, thresholds, budgets. All of them are here, in one object.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti {

#define TUTTI_CONSTANT_FIELD_Compiled(type, name, value) static constexpr type name = value;
#define TUTTI_CONSTANT_FIELD_PerRank(type, name, value) type name = value;
#define TUTTI_CONSTANT_FIELD_PerJob(type, name, value) type name = value;
#define TUTTI_CONSTANT(scope, type, name, value, unit, meaning, measured) \
  TUTTI_CONSTANT_FIELD_##scope(type, name, value)

/// topo/constants.def documents each field: its unit, its meaning, and where it was measured, or that it was chosen.
struct MachineConstants {
#include "topo/constants.def"
};

#undef TUTTI_CONSTANT_FIELD_Compiled
#undef TUTTI_CONSTANT_FIELD_PerRank
#undef TUTTI_CONSTANT_FIELD_PerJob

namespace internal {
/// A profile (select/profile.hpp) or the quick calibration (select/calibration.hpp) replaces figures of scope PerRank
/// before the process has its first communicator. Those of scope PerJob are the table's.
inline constinit MachineConstants constants_in_use;
}  // namespace internal

/// The constants in use.
inline const MachineConstants& machine_constants() { return internal::constants_in_use; }

/// Who may have a value of its own: nobody, a rank, or a whole job.
enum class ConstantScope { Compiled, PerRank, PerJob };

/// One row of the table.
struct ConstantInfo {
  const char* name;
  double value;
  const char* unit;
  ConstantScope scope;
  const char* meaning;
  const char* measured;
};

/// All rows, with the values in use.
std::vector<ConstantInfo> constant_table();

}  // namespace tutti
