// The machine, this process's share of it, and the measured constants, for `tutti info`.
#pragma once

#include <nlohmann/json.hpp>

#include "topo/machine.hpp"

namespace tutti::tools {

/// Host, kernel, processors, caches, memory, in display order.
nlohmann::ordered_json machine_facts(const Machine& machine);

/// Processors, caches, processor time and memory that this process may use.
nlohmann::ordered_json share_facts(const Machine& machine);

/// By name: value, unit, scope, meaning and where it was measured.
nlohmann::ordered_json constant_facts();

}  // namespace tutti::tools
