// How many blocks of threads run a call on the memory of a device. More blocks move more bytes at a time, until the
// link between two devices is full; fewer leave more of the device to the user's kernels.
//
// A block moves a byte in `cuda_block_beta`, and folds it on the way, so b blocks do in that divided by b, and never
// faster than the link; each round pays a fence and a descriptor (`cuda_fence`). With one block, short messages travel
// in lines, without either: the block's threads store such a message at once, with its flags.
#pragma once

#include <cstdint>

#include "plan/algorithm.hpp"
#include "select/model.hpp"

namespace tutti::select {

/// The longest messages in lines and in whole lines, of links between any two ranks; 0: none travel so.
struct LineLengths {
  uint64_t lines = 0, whole = 0;
};

/// The predicted seconds of a call of `bytes` bytes a block, in rounds of `window` of them, with so many blocks.
double seconds_with_blocks(const plan::Cost& cost, uint64_t bytes, uint64_t window, const Setting& setting,
                           const LineLengths& longest, uint32_t blocks);

/// The fewest blocks, of 1 to `most`, with which the predicted time is at most 3 % above the best.
uint32_t fewest_blocks(const plan::Cost& cost, uint64_t bytes, uint64_t window, const Setting& setting,
                       const LineLengths& longest, uint32_t most);

}  // namespace tutti::select
