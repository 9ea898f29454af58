// Binding ranks to cores.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "tools/run/job.hpp"

namespace tutti::tools {

enum class Binding { Auto, None, Core };

/// The processors of each core that this process may use, in the machine's order. Never empty.
std::vector<cpu_set_t> usable_cores();

/// Binds this host's ranks, rank i to core i mod cores, if `how` is Core, or if it is Auto and there are at least as
/// many cores as ranks and more than one rank. Returns a description.
std::string bind_ranks(std::vector<Placement>& ranks, Binding how, const std::vector<cpu_set_t>& cores);

/// "0,2-3".
std::string to_text(const cpu_set_t& cpus);

}  // namespace tutti::tools
