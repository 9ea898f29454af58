// The rank that a hostile member attacks: a complete one, which joins, makes calls of all kinds and leaves.
#pragma once

#include "base/rank.hpp"
#include "control/bootstrap/unique_id.hpp"

namespace tutti::fuzz {

inline constexpr Rank kRanks = 2;

/// Its whole life, whatever its calls return. `shares`: its buffers can be mapped by others.
void live(const control::UniqueId& id, Rank rank, bool shares);

}  // namespace tutti::fuzz
