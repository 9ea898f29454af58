// One process of a program: plays its ranks, each on a thread, checks every result, and tells on stdout.
#pragma once

#include <string>

#include "attack/program.hpp"

namespace tutti::attack {

/// What a line came to, beside tutti's own codes.
inline constexpr int kWrongData = 100;

/// Joins with the id in `id` (hexadecimal), or makes one and tells it as "id HEX" where that is empty. Tells, for each
/// line of each rank, "line RANK INDEX CODE SECONDS TEXT"; the joining has index −1, the final destroys follow the
/// last.
int play(const Program& program, int process, const std::string& id);

}  // namespace tutti::attack
