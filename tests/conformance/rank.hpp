// One rank's part of a list of cases: it fills buffers, calls and checks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "conformance/cases.hpp"
#include "tutti/tutti.h"

namespace tutti::conformance {

inline constexpr int kMaxRanks = 16;

/// A rank's findings. Plain data, because it lies in memory that processes share.
struct Findings {
  std::array<uint64_t, kCollectives> cases;  ///< calls made, by row of the table
  std::array<uint64_t, kCollectives> wrong;  ///< calls with a wrong result
  uint64_t finished;                         ///< 1: the rank has run all cases and destroyed its communicator
  char first[600];                           ///< the first error
};

/// The memory that the ranks of one communicator share.
struct Board {
  std::array<Findings, kMaxRanks> findings;
  std::array<std::atomic<uint64_t>, kMaxRanks> barriers;  ///< that each rank has entered
};

/// Runs the cases as `rank` of `comm` and destroys `comm`. After a call that fails, no other is made.
void run_cases(std::span<const Case> cases, int rank, tuttiComm_t comm, Board& board, bool mapped);

/// Records an error if it is the first one.
void report(Findings& findings, Collective row, const std::string& text);

/// Checks that float sums of every type have the bits of the canonical order (TUTTI_REPRODUCIBLE). Then leaves.
void run_sums(int ranks, int rank, tuttiComm_t comm, Board& board);

}  // namespace tutti::conformance
