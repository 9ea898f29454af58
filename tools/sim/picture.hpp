// What ranks did in a simulation, for a drawing.
#pragma once

#include <string>

#include "sim/replay.hpp"
#include "tools/timeline.hpp"

namespace tutti::tools {

inline constexpr Rank kMaxDrawn = 64;  ///< ranks in a drawing

/// Of each of the first ranks a row for what it receives, one for what it sends, and one for what it copies or folds
/// without a message, if it does. Lanes that are at work at one time share the row's height.
TimelinePicture picture_of(const sim::Replay& replay, const std::string& title);

}  // namespace tutti::tools
