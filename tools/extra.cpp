#include "tools/extra.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "base/limits.hpp"
#include "tools/run/self_job.hpp"

namespace tutti::tools {
namespace {

constexpr const char* kProgram = "tutti-extra";

struct Command {
  const char *name, *does;
};
constexpr Command kCommands[] = {
    {"plan", "the algorithms: lists, shows, proves, draws, exports and imports them, and makes plans for a machine"},
    {"topo", "the machine's topology: a tree, and the paths between GPUs or cores"},
    {"sim", "simulates a call on a machine that need not be there"},
    {"tune", "measures this machine, so that the best algorithms are chosen here"},
    {"train", "trains a small GPT over all ranks"},
    {"lab", "plans a training job: memory, communication, time, the best layout"},
};

bool is_extra(std::string_view word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](const Command& c) { return c.name == word; });
}

}  // namespace

void list_extra_commands(CLI::App& app) {
  for (const Command& command : kCommands) app.add_subcommand(command.name, command.does);
}

int become_extra(int argc, char** argv) {
  const int at = argc > 2 && std::string_view(argv[1]) == "help" ? 2 : 1;
  if (argc <= at || !is_extra(argv[at])) return -1;
  std::string program = kProgram;
  try {
    const std::string here = own_program();
    program = here.substr(0, here.rfind('/') + 1) + kProgram;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti %s: this command is in %s, which cannot be found: %s\n", argv[at], kProgram,
                 error.what());
    return 1;
  }
  execv(program.c_str(), argv);
  const std::string why =
      errno == ENOENT ? "does not exist; build it with tools/build, or with\n  cmake --build BUILD --target tutti_extra"
                      : system_words(errno);
  std::fprintf(stderr, "tutti %s: this command is in another program, and %s %s\n", argv[at], program.c_str(),
               why.c_str());
  return 1;
}

}  // namespace tutti::tools
