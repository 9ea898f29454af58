// Runs the calls of a script as one rank.
#pragma once

#include <string>

#include "support/child.hpp"
#include "tutti/tutti.hpp"

namespace tutti::fault {

/// In place of a line's number: the rank, whose script begins with `tells`, is about to join.
inline constexpr int kBeginsToJoin = -2;

/// Joins, makes the script's calls and reports each result: "RANK LINE CODE AT SECONDS TEXT".
void play(int ranks, int rank, const tuttiUniqueId& id, const std::string& script, test::Line& test);

}  // namespace tutti::fault
