// The commands of the command line. Each function adds one to `app`; when the user calls it, it leaves the exit status
// in `status` (0 only when what was asked for is true) or throws an exception whose text `main` prints, with status 2
// for an Error(InvalidArgument), a command line that cannot be obeyed, and 1 for all others.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

void add_env(CLI::App& app, int& status);
void add_info(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
/// `arguments`: the whole command line, to start this program again as several processes.
void add_perf(CLI::App& app, const std::vector<std::string>& arguments, int& status);
/// `program`: what stood after "--" on the command line, filled in before the command runs.
void add_run(CLI::App& app, const std::vector<std::string>& program, int& status);

}  // namespace tutti::tools
