// tutti: the commands that everybody needs; the others are in tutti-extra (tools/extra.hpp).
#include "tools/command_line.hpp"
#include "tools/commands.hpp"
#include "tools/extra.hpp"

namespace tutti::tools {
namespace {

void add_commands(CLI::App& app, const std::vector<std::string>& whole, const std::vector<std::string>& program,
                  int& status) {
  add_perf(app, whole, status);
  add_run(app, program, status);
  add_explain(app);
  list_extra_commands(app);
  add_info(app);
  add_env(app, status);
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) {
  const int status = tutti::tools::become_extra(argc, argv);
  return status >= 0 ? status : tutti::tools::obey_command_line(argc, argv, tutti::tools::add_commands);
}
