// The rank that a hostile member talks to: a whole one, which joins, makes calls of all kinds and leaves.
#pragma once

#include "base/rank.hpp"
#include "control/bootstrap/unique_id.hpp"

namespace tutti::fuzz {

inline constexpr Rank kRanks = 2;

/// All of its life, whatever becomes of it. `shares`: its buffers are memory that others can map.
void live(const control::UniqueId& id, Rank rank, bool shares);

}  // namespace tutti::fuzz
