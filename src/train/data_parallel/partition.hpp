// How replicas share out a unit's parameters: each run of them in pieces that differ by at most one element, so nothing
// is padded.
#pragma once

#include <vector>

#include "tutti/train/data_parallel.hpp"

namespace tutti::train {

/// Consecutive parameters of one unit with the same replicas: dense ones, or experts.
struct Run {
  size_t unit = 0, first = 0, count = 0;  ///< elements of the unit's flat buffer
  Collectives* comm = nullptr;
  std::vector<size_t> counts;  ///< of each replica's piece
  size_t piece_first = 0;      ///< where this rank's piece begins in the flat buffer
  size_t piece_count() const { return counts[static_cast<size_t>(comm->rank())]; }
  /// The parts of a unit's flat buffer.
  Span whole(Span unit_buffer) const { return unit_buffer.part(first, count); }
  Span piece(Span unit_buffer) const { return unit_buffer.part(piece_first, piece_count()); }
};

std::vector<Run> runs_of(size_t unit, const Layout& layout, const ReplicaGroups& groups);

/// all ← every replica's piece. `piece` may be its part of `all`.
void gather(Device& device, const Run& run, Purpose purpose, Span piece, Span all, Stream& stream);

}  // namespace tutti::train
