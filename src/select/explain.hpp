// Why an algorithm: the table of all candidates, from the selector's own figures and reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "select/machine.hpp"
#include "select/select.hpp"

namespace tutti::select {

/// What a call takes at least, by the machine's bound.
struct LeastTime {
  double seconds = 0;
  bool exact = false;  ///< some schedule reaches it, of large calls
  std::string words;   ///< the certificate
};
/// Of a block of so many bytes, where ranks alone fold; none: no bound is known of this collective.
std::optional<LeastTime> least_time(Collective collective, uint64_t block, const CostInputs& inputs);
/// The same of what the method nvls runs, where switches fold.
std::optional<LeastTime> least_time_folding(Collective collective, uint64_t block, const CostInputs& inputs);
/// That which holds for this candidate's method.
std::optional<LeastTime> least_time(const Candidate& candidate, uint64_t block, const CostInputs& inputs);
/// "97.5 %": the part of the bound that a time reaches; "-": unknown.
std::string share_of_bound(const std::optional<LeastTime>& least, double seconds);

/// The block of a call whose whole buffer (as `tutti perf` has it) has `bytes` bytes.
uint64_t block_bytes(Collective collective, uint64_t bytes, Rank ranks);

/// All candidates of a collective with their times for exactly `bytes` bytes a block: first the one that such a call
/// gets, which is decided for its size class (decided_at), then the others, the best first.
std::vector<Candidate> priced_candidates(Collective collective, uint64_t bytes, const CostInputs& inputs,
                                         const CallKind& kind = {});

/// "chosen", "1.4 times as long", "rejected: …": of candidates as priced_candidates() orders them.
std::string verdict(const Candidate& candidate, const Candidate& best);

/// What links cost, and where that is known from; a line for each. Without a line break at its end.
std::string machine_text(const CostInputs& inputs, const MachineNotes& notes);

/// A row in words: "ring by lanes, rounds of 1M; messages: cma from 8K".
std::string row_text(const Row& row, uint64_t bytes);

/// The table, a candidate a line, the chosen one first; then its row, and what is known of the bound. `bytes`: of a
/// block. Without a line break at its end.
std::string explanation(const std::vector<Candidate>& candidates, uint64_t bytes, const CostInputs& inputs);

}  // namespace tutti::select
