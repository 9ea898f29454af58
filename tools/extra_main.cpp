// tutti-extra: all commands. Those that start programs of their own start this one again.
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace tutti::tools {
namespace {

void add_commands(CLI::App& app, const std::vector<std::string>& arguments, int& status) {
  add_plan(app, status);
  add_topo(app);
  add_sim(app);
  add_tune(app, status);
  add_train(app, arguments, status);
  add_lab(app);
}

}  // namespace
}  // namespace tutti::tools

int main(int argc, char** argv) { return tutti::tools::obey_command_line(argc, argv, tutti::tools::add_commands); }
