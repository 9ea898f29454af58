// tutti: the command line.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "tools/commands.hpp"
#include "tutti/error.hpp"
#include "tutti/tutti.h"

namespace {

constexpr int kUsage = 2;  // a command line that cannot be obeyed

/// What CLI11 found wrong with the command line, on stderr; what was asked for with --help or --version, on stdout.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string name = "tutti";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::fprintf(stderr, "%s: %s\nSee %s --help.\n", name.c_str(), error.what(), name.c_str());
  return kUsage;
}

/// Takes what follows "--" on the line of `tutti run` out of it: that is for the program.
std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end() || arguments.front() != "run") return {};
  std::vector<std::string> program(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return program;
}

int obey(std::vector<std::string> arguments) {
  int status = 0;
  const std::vector<std::string> whole = arguments;
  const std::vector<std::string> program = take_program(arguments);
  CLI::App app{"Tutti: collectives, checked before they run, explained when they run, named when they fail."};
  app.name("tutti");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("tutti ") + tuttiGetVersion());
  app.footer("Examples:\n  tutti perf all_reduce --np 4\n  tutti run -n 4 -- ./program\n  tutti info\n");
  tutti::tools::add_perf(app, whole, status);
  tutti::tools::add_run(app, program, status);
  tutti::tools::add_plan(app, status);
  tutti::tools::add_info(app, status);
  tutti::tools::add_env(app, status);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = obey({argv + std::min(argc, 1), argv + argc});
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "tutti: not all of the output could be written\n");
    return std::max(status, 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti %s: %s\n", argc > 1 ? argv[1] : "", error.what());
    const auto* const known = dynamic_cast<const tutti::Error*>(&error);
    return known != nullptr && known->code() == tutti::Code::InvalidArgument ? kUsage : 1;
  }
}
