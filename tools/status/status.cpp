// tutti status: what the ranks of a running job do, and for whom they wait.
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <cstdio>
#include <exception>
#include <memory>
#include <set>
#include <thread>

#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/status/ask.hpp"
#include "tools/status/show.hpp"

namespace tutti::tools {
namespace {

struct StatusOptions {
  uint32_t process = 0;  // 0: all jobs
  bool json = false, watch = false;
};

void show(const nlohmann::json& page, bool json) {
  const std::string text = json ? page.dump() + "\n" : status_text(page);
  std::fputs(text.c_str(), stdout);
}

/// Each job of this user once.
void show_all(bool json) {
  std::set<uint32_t> shown;
  for (const uint32_t served : processes_with_status()) {
    const uint32_t process = process_to_ask(served);
    if (shown.contains(process)) continue;
    try {
      const nlohmann::json page = ask_status(process);
      if (!json && !shown.empty()) fmt::print("\n");
      show(page, json);
      shown.insert(process);
      for (const auto& one : page.at("processes")) {
        if (one.at("host") == page.at("host")) shown.insert(one.at("process").get<uint32_t>());
      }
    } catch (const std::exception& error) {  // it has ended meanwhile, or answers nothing that can be read
      fmt::print(stderr, "tutti status: {}\n", error.what());
    }
  }
  if (shown.empty()) throw_error(Code::InvalidArgument, "no process of this host could be asked: none uses Tutti now");
}

void run(const StatusOptions& options) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  for (;;) {
    if (options.watch && terminal && !options.json) std::fputs("\033[H\033[2J", stdout);
    options.process == 0 ? show_all(options.json) : show(ask_status(process_to_ask(options.process)), options.json);
    if (!options.watch) return;
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

void add_status(CLI::App& app) {
  CLI::App* command = app.add_subcommand("status", "what the ranks of a running job do, and for whom they wait");
  const auto options = std::make_shared<StatusOptions>();
  command
      ->add_option("PROCESS", options->process,
                   "a process of the job, or its launcher, by number; default: every job of this host")
      ->check(CLI::Range(1, INT_MAX));
  command->add_flag("--json", options->json, "one line of JSON for each job: docs/watching.md");
  command->add_flag("--watch", options->watch, "again every second, until it is stopped");
  command->footer("Example:\n  tutti status 4711\n");
  command->callback([options] { run(*options); });
}

}  // namespace tutti::tools
