// The bound of a run of `tutti perf`, by this machine's topology.
#pragma once

#include <optional>
#include <vector>

#include "select/synthesised.hpp"
#include "tools/perf/options.hpp"
#include "tools/perf/ranks.hpp"

namespace tutti::tools {

/// Of ranks as `tutti perf` and `tutti run` place them: on cores of this host, and of as many hosts like it as there
/// are, whose links are those that `tutti tune --hosts` has measured; or on its GPUs. None: unknown.
std::optional<select::KnownBound> bound_of_run(const PerfOptions& options, const std::vector<RankPlace>& places);

}  // namespace tutti::tools
