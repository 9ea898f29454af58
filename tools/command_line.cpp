#include "tools/command_line.hpp"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/spelling.hpp"
#include "tools/commands.hpp"
#include "tools/exit_status.hpp"
#include "tutti/error.hpp"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

/// The first word that `command` does not know, with the nearest known one; "" if all words are known and the mistake
/// is another one.
std::string wrong_word(const CLI::App& command) {
  const std::vector<std::string> unknown = command.remaining();
  std::vector<std::string> commands, flags;
  for (const CLI::App* c : command.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(c->get_name());
  }
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  if (unknown.empty()) {
    return commands.empty() ? "" : fmt::format("say what to do: {}", fmt::join(commands, ", "));
  }
  const std::string& word = unknown.front();
  if (word.front() == '-') return fmt::format("there is no option {}{}", word, did_you_mean(word, flags));
  if (commands.empty()) return fmt::format("nothing more was expected, but there is '{}'", word);
  return fmt::format("there is no command '{}'{}; there are {}", word, did_you_mean(word, commands),
                     fmt::join(commands, ", "));
}

/// What is written as for mpirun, in place of CLI11's error; "": nothing.
std::string mpirun_words(const CLI::App& command, const std::vector<std::string>& arguments) {
  const CLI::Option* const ranks = command.get_option_no_throw("--np");
  if (ranks == nullptr || std::find(arguments.begin(), arguments.end(), "-np") == arguments.end()) return "";
  return fmt::format("there is no option -np: write {}--np N", ranks->check_sname("n") ? "-n N or " : "");
}

/// Prints CLI11's error on stderr, or what --help or --version asked for on stdout.
int explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const CLI::App* command = &app;
  std::string name = "tutti";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::string wrong = mpirun_words(*command, arguments);
  if (wrong.empty()) wrong = wrong_word(*command);
  std::fprintf(stderr, "%s: %s\nSee %s --help.\n", name.c_str(), wrong.empty() ? error.what() : wrong.c_str(),
               name.c_str());
  return kRefusedStatus;
}

/// Replaces `tutti help`, `tutti help perf` and `tutti version` by the equivalent flags. If help is asked for an
/// unknown command, only that word is kept, so that it is reported as unknown.
void take_words_for_flags(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  if (arguments.front() == "version") arguments.front() = "--version";
  if (arguments.front() != "help") return;
  arguments.erase(arguments.begin());
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    if (command->get_subcommands([](const CLI::App*) { return true; }).empty()) break;
    const auto named = command->get_subcommands([&](const CLI::App* c) { return c->get_name() == word; });
    if (named.empty()) return;
    command = named.front();
  }
  arguments.emplace_back("--help");
}

/// Removes the words after "--" from the line of `tutti run`: they are the program's.
std::vector<std::string> take_program(std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end() || arguments.front() != "run") return {};
  std::vector<std::string> program(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return program;
}

/// An option whose value is empty, as of a shell variable that is not set, says nothing: it is refused everywhere.
void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    option->check([](const std::string& value) { return value.empty() ? std::string("its value is empty") : ""; });
  }
  for (CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) refuse_empty_values(*inner);
}

int obey(std::vector<std::string> arguments, AddCommands add) {
  int status = 0;
  const std::vector<std::string> whole = arguments;
  const std::vector<std::string> program = take_program(arguments);
  CLI::App app{"Tutti: collectives, checked before they run, explained when they run, named when they fail."};
  app.name("tutti");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("tutti ") + tuttiGetVersion());
  app.footer(
      "Examples:\n  tutti perf all_reduce --np 4\n  tutti run -n 4 -- ./program\n  tutti train -n 2\n  tutti info\n  "
      "tutti help perf\n");
  add_perf(app, whole, status);
  add_run(app, program, status);
  add_status(app);
  add_top(app);
  add_trace(app);
  add_watch(app);
  add_explain(app);
  add(app, whole, status);
  add_info(app);
  add_env(app, status);
  refuse_empty_values(app);
  take_words_for_flags(app, arguments);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them reversed
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return explain(app, error, whole);
  }
  return status;
}

}  // namespace

int obey_command_line(int argc, char** argv, AddCommands add) {
  try {
    const int status = obey({argv + std::min(argc, 1), argv + argc}, add);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "tutti: not all of the output could be written\n");
    return std::max(status, 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti %s: %s\n", argc > 1 ? argv[1] : "", error.what());
    const auto* const known = dynamic_cast<const Error*>(&error);
    return known != nullptr ? status_of(*known) : 1;
  }
}

}  // namespace tutti::tools
