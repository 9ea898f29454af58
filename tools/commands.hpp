// The commands of the command line. Each function adds one to `app`. When the user calls the command, it sets the exit
// status in `status` (0 only if what was asked for is true; without that argument it stays 0) or throws; the command
// line then prints the exception's text and exits with 2 for Error(InvalidArgument), an invalid command line, with 1
// otherwise.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

void add_env(CLI::App& app, int& status);
void add_explain(CLI::App& app);
void add_info(CLI::App& app);
void add_lab(CLI::App& app);
void add_plan(CLI::App& app, int& status);
void add_sim(CLI::App& app);
void add_status(CLI::App& app);
void add_top(CLI::App& app);
void add_topo(CLI::App& app);
void add_trace(CLI::App& app);
void add_watch(CLI::App& app);
void add_tune(CLI::App& app, int& status);
/// `arguments`: the whole command line, with which this program starts itself again as several processes.
void add_perf(CLI::App& app, const std::vector<std::string>& arguments, int& status);
/// As add_perf. In a build without OpenBLAS the command says so.
void add_train(CLI::App& app, const std::vector<std::string>& arguments, int& status);
/// `program`: the words after "--" on the command line, set before the command runs.
void add_run(CLI::App& app, const std::vector<std::string>& program, int& status);

}  // namespace tutti::tools
