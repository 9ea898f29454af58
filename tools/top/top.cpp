// tutti top: what the ranks of a running job do, as rates.
#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <cstdio>
#include <memory>

#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/number_range.hpp"
#include "tools/status/ask.hpp"
#include "tools/top/rates.hpp"
#include "tools/top/screen.hpp"

namespace tutti::tools {
namespace {

struct TopOptions {
  uint32_t process = 0;  // 0: a job of this host
  double interval = 1;   // seconds
  uint64_t times = 0;    // 0: until it is stopped
};

/// False: to end.
bool take_key(char key, TopOrder& order, bool& paused) {
  if (key == 's') order = static_cast<TopOrder>((static_cast<int>(order) + 1) % kTopOrders);
  if (key == 'p') paused = !paused;
  return key != 'q';
}

void show_rates(const TopOptions& options) {
  using Clock = std::chrono::steady_clock;
  const uint32_t process = any_process_to_ask(options.process);
  nlohmann::json before = ask_status(process);
  Clock::time_point then = Clock::now();
  const Screen screen;
  TopOrder order = TopOrder::Worst;
  TopTable table;
  bool paused = false, known = false;
  for (uint64_t shown = 0; options.times == 0 || shown < options.times;) {
    const char key = screen.key(options.interval);
    if (!take_key(key, order, paused)) return;
    if (key == 0 && !paused) {
      nlohmann::json now = ask_status(process);
      const auto at = Clock::now();
      table = top_table(before, now, std::chrono::duration<double>(at - then).count());
      before = std::move(now);
      then = at;
      known = true;
      ++shown;
    }
    if (!known || (key == 0 && paused)) continue;
    std::string text = top_text(table, order, screen.width(), screen.height());
    if (screen.is_terminal()) text += paused ? "paused; p: go on, s: sort, q: quit" : "p: pause, s: sort, q: quit";
    screen.show(text);
  }
}

}  // namespace

void add_top(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("top", "how many calls and bytes a second the ranks of a job make, and who waits");
  const auto options = std::make_shared<TopOptions>();
  command
      ->add_option("PROCESS", options->process,
                   "a process of the job, or its launcher, by number; default: a job of this host")
      ->check(CLI::Range(1, INT_MAX));
  command->add_option("--interval", options->interval, "seconds between two looks")
      ->check(within(0.1, 3600.0))
      ->capture_default_str();
  command->add_option("--times", options->times, "ends after so many looks; default: with q, or Ctrl-C");
  command->footer(
      "Keys: q ends it, s sorts by something else, p pauses. If the output is no terminal, tables follow each other.\n"
      "Example:\n  tutti top 4711\n");
  command->callback([options] {
    try {
      show_rates(*options);
    } catch (const nlohmann::json::exception&) {
      throw_error(Code::ProtocolError, "the answer is another version's of Tutti: ask with the `tutti` of the job");
    }
  });
}

}  // namespace tutti::tools
