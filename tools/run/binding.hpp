// Binding ranks to cores.
#pragma once

#include <string>
#include <vector>

#include "tools/run/job.hpp"
#include "topo/cores.hpp"

namespace tutti::tools {

enum class Binding { Auto, None, Core };

/// The processors of each core that this process may use, in the machine's order. Never empty.
std::vector<Cores> usable_cores();

/// Binds this host's ranks, rank i to core i mod cores, if `how` is Core, or if it is Auto and there are at least as
/// many cores as ranks and more than one rank. Returns a description.
std::string bind_ranks(std::vector<Placement>& ranks, Binding how, const std::vector<Cores>& cores);

}  // namespace tutti::tools
