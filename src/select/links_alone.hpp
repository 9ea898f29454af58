// A call's time on GPUs if links alone took any.
#pragma once

#include <cstdint>
#include <optional>

#include "select/select.hpp"

namespace tutti::select {

/// What links take of a call by this candidate's algorithm, in seconds: without rounds of the interpreter and without
/// blocks of threads that copy. It is what the simulator replays. Nothing in memory of the host, where cores copy, and
/// where the switch folds (nvls), since its links carry other bytes. `bytes`: of a block.
std::optional<double> links_alone(const Candidate& candidate, uint64_t bytes, const CostInputs& inputs);

}  // namespace tutti::select
