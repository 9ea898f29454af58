// A program by its lanes: what a block needs to run one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/program.hpp"

namespace tutti::exec::gpu {

/// One lane's instructions, with the segments, operands and messages that they refer to numbered anew. Its links and
/// stages are its own too: the lists have their numbers in the program.
struct LaneSlice {
  WindowProgram full, last;  ///< of one lane each
  std::vector<uint32_t> outs, ins;
  std::vector<uint32_t> stages;
};

/// One for each lane. Throws Error(InternalError) if two lanes use the same stage.
std::vector<LaneSlice> slices_of(const Program& program);

}  // namespace tutti::exec::gpu
