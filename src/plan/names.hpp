// The names of a plan's enumerators, in their order, for JSON and for error texts.
#pragma once

#include "plan/plan.hpp"

namespace tutti::plan {

inline constexpr const char* kFormat = "tutti-plan";
inline constexpr uint32_t kVersion = 1;

inline constexpr const char* kKinds[] = {"copy", "send", "recv", "reduce"};
inline constexpr const char* kShapes[] = {"left", "tree"};
inline constexpr const char* kLends[] = {"never", "out_of_place", "always"};
inline constexpr const char* kBufferNames[kBuffers] = {"in", "out", "scratch"};

}  // namespace tutti::plan
