// The command line of `tutti` and of `tutti-extra`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// Adds the commands that the two programs do not share; arguments as those of add_train() (tools/commands.hpp).
using AddCommands = void (*)(CLI::App& app, const std::vector<std::string>& arguments, int& status);

/// Does what the command line says; errors go to stderr. Returns the exit status.
int obey_command_line(int argc, char** argv, AddCommands add);

}  // namespace tutti::tools
