// The commands of the command line. Each function adds one to `app`; when the user calls it, it leaves the exit status
// in `status` (0 only when what was asked for is true) or throws an exception whose text `main` prints.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

/// A command line that cannot be obeyed: exit status 2.
constexpr int kUsage = 2;

void add_env(CLI::App& app, int& status);
/// `program`: what stood after "--" on the command line, filled in before the command runs.
void add_run(CLI::App& app, const std::vector<std::string>& program, int& status);

}  // namespace tutti::tools
