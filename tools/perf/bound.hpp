// The bound of a run of `tutti perf`, by this machine's topology.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "select/synthesised.hpp"
#include "tools/perf/options.hpp"
#include "tools/perf/ranks.hpp"

namespace tutti::tools {

struct RunBound {
  select::KnownBound known;
  std::optional<select::KnownBound> of_nvls;  ///< of calls that a switch folds; none: none does

  /// That which holds for calls by this method; null: none is known.
  const select::KnownBound* of(std::string_view method) const;
};

/// By root; of collectives without one there is that of root 0 alone.
using Bounds = std::map<int, RunBound>;

/// Of ranks as `tutti perf` and `tutti run` place them: on cores of this host, and of as many hosts like it as there
/// are, whose links are those that `tutti tune --hosts` has measured; or on its GPUs. Those of all rows' roots; none:
/// unknown.
Bounds bounds_of_run(const PerfOptions& options, const std::vector<PerfRow>& rows,
                     const std::vector<RankPlace>& places);

}  // namespace tutti::tools
