// How people write collectives, element types and operators: one table for the command line, for TUTTI_ALGO and for
// plan commands. Beside Tutti's own names it has NCCL's (ncclAllReduce, ncclFloat), those of nccl-tests
// (all_reduce_perf, half, mulsum) and MPI's (MPI_Allreduce, MPI_DOUBLE); large and small letters, '_' and '-' do not
// matter. For a word that nobody knows there is the nearest that somebody would.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.hpp"

namespace tutti {

std::optional<Collective> collective_called(std::string_view word);
std::optional<DType> type_called(std::string_view word);
std::optional<Op> op_called(std::string_view word);

/// As above. Throws Error(InvalidArgument) "SOURCE: there is no collective 'alreduce' (did you mean all_reduce?); there
/// are …". `source` is what the word came from (a variable, a flag); empty: none is named.
Collective read_collective(std::string_view word, std::string_view source);
DType read_type(std::string_view word, std::string_view source);
Op read_op(std::string_view word, std::string_view source);

/// The known word that a slip of the fingers turns into `word`, or that begins as it does; nothing where none is near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);
/// " (did you mean ring?)", or "" where nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// The names of all collectives, types and operators, as Tutti writes them.
std::vector<std::string> collective_names();
std::vector<std::string> type_names();
std::vector<std::string> op_names();

}  // namespace tutti
