// One process of a program: runs its ranks, each on a thread, checks every result, and reports on stdout.
#pragma once

#include <string>

#include "attack/program.hpp"

namespace tutti::attack {

/// Results of a line, beside tutti's own codes.
inline constexpr int kWrongData = 100;

/// Joins with the id in `id` (hexadecimal), or makes one and prints it as "id HEX" if that is empty. Prints, for each
/// line of each rank, "line RANK INDEX CODE SECONDS TEXT"; joining has index −1, the final destroys follow the last
/// line.
int play(const Program& program, int process, const std::string& id);

}  // namespace tutti::attack
