#pragma once

#include <cstdint>

namespace tutti {

/// A rank's number in its communicator, 0 … n−1; −1 where there is none.
using Rank = int32_t;
inline constexpr Rank kNoRank = -1;

}  // namespace tutti
