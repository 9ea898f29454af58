#pragma once

#include <cstdint>

namespace tutti {

/// A rank's number in its communicator, 0 … n−1; −1: no rank.
using Rank = int32_t;
inline constexpr Rank kNoRank = -1;

}  // namespace tutti
