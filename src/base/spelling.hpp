// Spellings of collectives, element types and operators: one table for the command line, TUTTI_ALGO and the plan
// commands. Beside Tutti's own names it accepts NCCL's (ncclAllReduce, ncclFloat), nccl-tests' (all_reduce_perf, half,
// mulsum) and MPI's (MPI_Allreduce, MPI_DOUBLE). Case, '_' and '-' are ignored. For an unknown word it suggests the
// nearest known one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "tutti/types.hpp"

namespace tutti {

std::optional<Collective> collective_called(std::string_view word);
std::optional<DType> type_called(std::string_view word);
std::optional<Op> op_called(std::string_view word);

/// As above. Throws Error(InvalidArgument) "SOURCE: there is no collective 'alreduce' (did you mean all_reduce?); there
/// are …". `source` is the origin of the word (a variable, a flag); empty: not named.
Collective read_collective(std::string_view word, std::string_view source);
/// The bytes of a call that is only calculated, as an option gives them. Throws Error(InvalidArgument), also for more
/// than 1 PiB: products with ranks and rates stay in range up to there.
Bytes read_call_bytes(const std::string& word, std::string_view option);
DType read_type(std::string_view word, std::string_view source);
Op read_op(std::string_view word, std::string_view source);

/// The known word that `word` is a misspelling or a prefix of; empty if none is close.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);
/// " (did you mean ring?)", or "" if no word is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// Tutti's names of all collectives, types and operators.
std::vector<std::string> collective_names();
std::vector<std::string> type_names();
std::vector<std::string> op_names();

}  // namespace tutti
