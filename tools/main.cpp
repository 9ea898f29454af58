// tutti: the commands that everybody needs; the others are in tutti-extra (tools/extra.hpp).
#include "tools/command_line.hpp"
#include "tools/extra.hpp"

int main(int argc, char** argv) {
  const int status = tutti::tools::become_extra(argc, argv);
  if (status >= 0) return status;
  return tutti::tools::obey_command_line(
      argc, argv, [](CLI::App& app, const auto&, int&) { tutti::tools::list_extra_commands(app); });
}
