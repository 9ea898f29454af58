// The command line of a program: which commands it has is the caller's.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// Adds a program's commands. `whole`: all words of the command line; `program`: those after "--", which `tutti run`
/// starts; `status`: what the command sets (tools/commands.hpp).
using AddCommands = void (*)(CLI::App& app, const std::vector<std::string>& whole,
                             const std::vector<std::string>& program, int& status);

/// Does what the command line says; errors go to stderr. Returns the exit status.
int obey_command_line(int argc, char** argv, AddCommands add);

}  // namespace tutti::tools
