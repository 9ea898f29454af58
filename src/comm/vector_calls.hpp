// Vector calls: collectives whose blocks differ in length between ranks (MPI's v-variants), in one common form.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call.hpp"

namespace tutti::comm {

/// The blocks of a buffer, one for each rank, in elements.
struct Blocks {
  std::vector<uint64_t> counts;   ///< 0 if no block goes to (comes from) that rank
  std::vector<uint64_t> offsets;  ///< from the start of the buffer
};

/// The blocks sent to and received from each rank. A reduction receives only this rank's own block.
struct VectorBlocks {
  Blocks in, out;
};

/// The counts and offsets that the user passed; null if the collective takes none there.
struct UserBlocks {
  const size_t* counts = nullptr;
  const size_t* offsets = nullptr;  ///< null: the blocks are contiguous
};

/// Converts `call` (its spec without a count) to a vector call. `in_count` and `out_count` apply if a buffer is only
/// this rank's own block. Checks everything that this rank can see; throws Error(InvalidArgument) with the reason.
/// Touches no buffer.
Call vector_call(Call call, Rank rank, Rank ranks, size_t in_count, UserBlocks in, size_t out_count, UserBlocks out);

/// The block that this rank sends to itself; of 0 bytes if there is nothing to copy, or the collective folds it.
struct OwnBlock {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t bytes = 0;
};
OwnBlock own_block(const Call& call, Rank rank);

/// True if rank `from` sends a block to rank `to` in such a call.
bool sends_block(const CallSpec& spec, Rank from, Rank to);

}  // namespace tutti::comm
