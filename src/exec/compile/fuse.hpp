// The first half of lowering: which steps of a plan become one instruction.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::exec {

/// One instruction before it is scaled: a step, and the send of its result, or of what it copies, that is fused to it.
struct Draft {
  const plan::Step* step = nullptr;
  const plan::Step* send = nullptr;
  uint32_t index = 0;  ///< of the first of them, within its lane
  bool store = false;  ///< the result is stored in local memory
};

/// Fuses the steps of every lane into drafts of instructions, by lane: a step and the send of its result, and a send,
/// if `with_copy` is true of it, and the copy that follows it.
std::vector<std::vector<Draft>> fuse(const plan::RankPlan& plan,
                                     const std::function<bool(const plan::Step& send)>& with_copy);

/// Which blocks of the output are read again.
std::vector<bool> output_read(const plan::RankPlan& plan);

}  // namespace tutti::exec
