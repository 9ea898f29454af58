// The first check: the tables are sound. All later checks rely on it.
#pragma once

#include <span>

#include "plan/plan.hpp"

namespace tutti::plan::verifier {

/// Limits that keep a proof within a few GiB and about a minute, also for a hostile plan.
inline constexpr uint64_t kMaxRanks = 1 << 14;
inline constexpr uint64_t kMaxLanes = 64;            ///< of one rank; the waits of a rank's lanes grow with their cube
inline constexpr uint64_t kMaxAllLanes = 1 << 14;    ///< of all ranks together
inline constexpr uint64_t kMaxParts = 1 << 20;       ///< of one partition
inline constexpr uint64_t kMaxCuts = 1 << 21;        ///< of all distinct partitions
inline constexpr uint64_t kMaxEntries = 1 << 27;     ///< steps, pieces, peers and operands named by steps, altogether
inline constexpr uint64_t kMaxLocations = 1 << 26;   ///< blocks × atoms of all ranks
inline constexpr uint64_t kMaxMoves = 1 << 29;       ///< atoms named by steps, altogether
inline constexpr uint64_t kMaxClockBytes = 1 << 30;  ///< of clocks alive at one time

/// Throws Rejected at the first index out of bounds, range out of order, peer out of range, and so on.
void check_structure(std::span<const RankPlan> plans);

}  // namespace tutti::plan::verifier
