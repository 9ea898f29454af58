// The caches that serve a processor, as the kernel tells them: a few small files, where hwloc takes milliseconds.
#pragma once

#include <string>
#include <vector>

#include "topo/machine.hpp"

namespace tutti {

/// The caches of data that serve this processor, the smallest level first; none where the kernel tells none. `root`:
/// the folder that has /sys.
std::vector<Cache> caches_of(int processor, const std::string& root = "");

/// What ranks on some processors have of caches. 0: unknown.
struct CacheSizes {
  uint64_t own = 0;    ///< bytes of the largest cache of the first one's core, which no other core uses
  uint64_t last = 0;   ///< bytes of the last cache that serves the first of them
  uint64_t lasts = 0;  ///< how many such last caches they have together

  bool operator==(const CacheSizes&) const = default;
};
CacheSizes cache_sizes(const Cores& processors, const std::string& root = "");

}  // namespace tutti
