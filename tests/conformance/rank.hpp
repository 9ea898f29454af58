// One rank's part in a list of cases: fills, calls, checks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "conformance/cases.hpp"
#include "tutti/tutti.h"

namespace tutti::conformance {

inline constexpr int kMostRanks = 16;

/// What a rank has found. Plain data: it lies in memory that processes share.
struct Findings {
  std::array<uint64_t, kCollectives> cases;  ///< calls that were made, by row of the table
  std::array<uint64_t, kCollectives> wrong;  ///< … and did not give what they must
  uint64_t finished;                         ///< 1: the rank has done all its cases and has left its communicator
  char first[600];                           ///< the first thing that was wrong
};

/// What the ranks of one communicator share.
struct CallBoard {
  std::array<Findings, kMostRanks> findings;
  std::array<std::atomic<uint64_t>, kMostRanks> barriers;  ///< that each rank has entered
};

/// Runs the cases as `rank` of `comm` and destroys `comm`. After a call that fails, no other is made.
void run_cases(std::span<const Case> cases, int rank, tuttiComm_t comm, CallBoard& board, bool mapped);

/// Remembers what is wrong if it is the first such thing.
void report(Findings& findings, Collective row, const std::string& text);

/// Sums of floats of every type, for TUTTI_REPRODUCIBLE: do they have the bits of the canonical order? Then leaves.
void run_sums(int ranks, int rank, tuttiComm_t comm, CallBoard& board);

}  // namespace tutti::conformance
