// Why an algorithm: the table of all candidates, from the selector's own figures and reasons.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "select/machine.hpp"
#include "select/select.hpp"

namespace tutti::select {

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

/// The table, a candidate a line, the chosen one first; then its row. `bytes`: of a block. Without a line break at its
/// end.
std::string explanation(const std::vector<Candidate>& candidates, uint64_t bytes);

}  // namespace tutti::select
