// Collectives whose blocks differ in length from rank to rank: what each rank sends and receives, in one form for all.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call.hpp"

namespace tutti::comm {

/// Blocks of a buffer, one for each rank, in elements.
struct Blocks {
  std::vector<uint64_t> counts;   ///< 0 where nothing goes to (comes from) that rank
  std::vector<uint64_t> offsets;  ///< from the beginning of the buffer
};

/// What goes to each rank and what comes from each. Of a reduction what comes is this rank's own block only.
struct Varying {
  Blocks in, out;
};

/// The counts and offsets of a call as its user gave them; null where the collective takes none there.
struct GivenBlocks {
  const size_t* counts = nullptr;
  const size_t* offsets = nullptr;  ///< null: the blocks lie one after the other
};

/// Puts `call` (its spec without a count) in that form. `in_count` and `out_count` are used where a buffer is this
/// rank's own block only. Checks everything that this rank can see and throws Error(InvalidArgument) with the reason;
/// touches no buffer.
Call varying_call(Call call, Rank rank, Rank ranks, size_t in_count, GivenBlocks in, size_t out_count, GivenBlocks out);

/// Moves the block that this rank sends itself, where the collective does not fold it.
void copy_own_block(const Call& call, Rank rank);

/// Does rank `from` send rank `to` a block in such a call?
bool travels(const CallSpec& spec, Rank from, Rank to);

}  // namespace tutti::comm
