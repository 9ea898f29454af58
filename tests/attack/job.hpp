// Runs one program: its processes, their output, and their end.
#pragma once

#include <string>

#include "attack/judge.hpp"

namespace tutti::attack {

/// Starts the processes (this program again, with `--process P`), reads their output, and ends them after `seconds`.
/// `arguments` make a process generate the same program.
Outcome run(const Program& program, const std::vector<std::string>& arguments, double seconds, bool verbose);

}  // namespace tutti::attack
