// Runs one program: its processes, what they tell, and their end.
#pragma once

#include <string>

#include "attack/judge.hpp"

namespace tutti::attack {

/// Starts the processes (this program again, with `--process P`), hears them out, and ends them after `seconds`.
/// `arguments` are those that make a process draw the same program.
Outcome run(const Program& program, const std::vector<std::string>& arguments, double seconds, bool verbose);

}  // namespace tutti::attack
