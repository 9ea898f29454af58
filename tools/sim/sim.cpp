// tutti sim: a call's time on a machine that need not be there.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "sim/draw.hpp"
#include "sim/simulate.hpp"
#include "tools/commands.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_file.hpp"
#include "tools/output_option.hpp"
#include "tools/perf/options.hpp"
#include "tools/progress.hpp"
#include "tools/sim/picture.hpp"
#include "tools/sim/scene.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxEvents = 200'000;
constexpr const char* kModel = "Times are a model's, not measured ones.";

struct SimOptions {
  std::string collective, bytes = "1M", algorithm, engine = "fast", trace, svg, file;
  SceneOptions scene;
  uint32_t calls = 1, width = 0;  // 0: not given
  bool compare = false, json = false;
};

struct Row {
  const plan::Algorithm* algorithm = nullptr;
  double predicted = 0;         // by the selector's formulas …
  std::optional<double> links;  // … and of that, what links alone take
  sim::Simulated simulated;
  std::string skipped;  // why it was not simulated
};

/// As nccl-tests defines it: what each rank's link must carry.
double bus_bandwidth(Collective collective, uint64_t bytes, Rank ranks, double seconds) {
  return seconds > 0 ? bus_factor(collective, ranks) * static_cast<double>(bytes) / seconds / 1e9 : 0;
}

Row simulate(Scene& scene, const select::Candidate& candidate, const SimOptions& options, bool events) {
  Row row{.algorithm = candidate.row.algorithm,
          .predicted = candidate.predicted.seconds(),
          .links = scene.links_alone(candidate),
          .simulated = {},
          .skipped = {}};
  sim::SimulateOptions how = effort_of(options.engine);
  if (events) how.max_events = kMaxEvents;
  how.calls = options.calls;
  try {
    row.simulated = sim::simulate(scene.call_of(candidate), scene.machine(), how);
  } catch (const Error& error) {
    if (!options.compare || error.code() != Code::Unsupported) throw;
    row.skipped = error.what();
  }
  return row;
}

std::vector<select::Candidate> wanted(const Scene& scene, const SimOptions& options) {
  std::vector<select::Candidate> usable;
  std::vector<std::string> names;
  for (const select::Candidate& candidate : scene.candidates()) {
    names.emplace_back(candidate.row.algorithm->name);
    const bool named = options.algorithm.empty() || options.algorithm == candidate.row.algorithm->name;
    if (!candidate.rejected.empty()) {
      if (!options.algorithm.empty() && named) {
        throw_error(Code::InvalidArgument, "--algo {}: {}", options.algorithm, candidate.rejected);
      }
      continue;
    }
    if (named) usable.push_back(candidate);
  }
  if (usable.empty() && names.empty()) {
    throw_error(Code::InvalidArgument, "{} has no algorithms to choose from: it is sent directly", options.collective);
  }
  if (usable.empty()) {
    throw_error(Code::InvalidArgument, "--algo {}: {} has no such algorithm{}", options.algorithm, options.collective,
                did_you_mean(options.algorithm, names));
  }
  if (!options.compare) usable.resize(1);
  return usable;
}

std::string notes_of(const sim::Simulated& simulated) {
  std::string text;
  if (simulated.replayed < simulated.rounds) {
    text = fmt::format("{} of {} windows replayed, the rest extrapolated", simulated.replayed, simulated.rounds);
  }
  return text + (text.empty() ? "" : "; ") +
         (simulated.verified ? "verified" : "too many steps to verify here: the tests prove the algorithm");
}

/// Why the formula and the replay differ by more than a tenth, a line for each reason; "" if they do not.
std::string why_they_differ(const Row& row, const std::string& engine) {
  constexpr double kAlike = 0.1;
  const double replayed = row.simulated.seconds;
  const auto alike = [&](double seconds) { return std::abs(seconds - replayed) <= kAlike * replayed; };
  if (alike(row.predicted)) return "";
  if (!row.links) {
    return "    because the replay follows each message, its waits and the caches, where the formula adds rounds and "
           "bytes\n";
  }
  std::string text;
  if (std::abs(row.predicted - *row.links) > kAlike * replayed / 2) {
    text += fmt::format(
        "    because the formula counts what kernels take, {} us: rounds of the interpreter, blocks that copy.\n"
        "    The replay has links alone, as the formula without kernels: {} us\n",
        time_text(row.predicted - *row.links), time_text(*row.links));
  }
  if (alike(*row.links)) return text;
  return text + (*row.links > replayed
                     ? "    because messages overlap in the replay whose latencies and bytes the formula adds\n"
                 : engine == "fast"
                     ? "    because a link divides its rate equally among messages, and some cannot use their share\n"
                     : "    because messages wait for each other on the links that they share\n");
}

/// "97.3 % of the bound": the least time of the call, and the cut that shows it.
void print_bound(const Scene& scene, double seconds) {
  const auto least = scene.least();
  if (!least) return;
  fmt::print("  {} of the bound, {} us: {}; {}\n", select::share_of_bound(least, seconds), time_text(least->seconds),
             least->words, least->exact ? "trees reach it" : "it may be that no schedule reaches it");
}

/// "8 windows", or "8 of the 16 windows asked for"; `asked`: 0 if none were.
std::string width_text(uint32_t width, uint32_t asked) {
  if (asked == 0 || width == asked) return counted(width, "window");
  return fmt::format("{} of the {} asked for", width, counted(asked, "window"));
}

void print_one(const Scene& scene, const Row& row, const SimOptions& options) {
  const sim::Simulated& s = row.simulated;
  fmt::print("\n{}: {} us, {:.4g} GB/s busbw\n", row.algorithm->name, time_text(s.seconds),
             bus_bandwidth(scene.collective(), scene.bytes(), scene.ranks(), s.seconds));
  if (s.interval > 0) fmt::print("  back to back: {} us a call\n", time_text(s.interval));
  fmt::print("  the selector's formula predicts {} us\n", time_text(row.predicted));
  fmt::print("{}", why_they_differ(row, options.engine));
  print_bound(scene, s.seconds);
  if (!s.busiest.name.empty()) {
    fmt::print("  busiest: {}, {:.0f} % of its rate, {:.4g} GB\n", s.busiest.name, 100 * s.busiest.share,
               s.busiest.bytes / 1e9);
  }
  fmt::print("  {:.6g} messages, {} at a time a lane; {}\n", s.messages, width_text(s.width, options.width),
             notes_of(s));
}

void print_all(const Scene& scene, const std::vector<Row>& rows) {
  const auto line = [](const char* mark, auto&&... cells) {
    fmt::print("{} {:<22}{:>12}{:>12}{:>10}{:>12}  {:>5}  {}\n", mark, cells...);
  };
  fmt::print("\n");
  line(" ", "algorithm", "simulated", "busbw GB/s", "of bound", "formula", "times", "busiest (times in us)");
  for (const Row& row : rows) {
    if (!row.skipped.empty()) {
      line(" ", row.algorithm->name, "-", "-", "-", time_text(row.predicted), "-", row.skipped);
      continue;
    }
    const sim::Simulated& s = row.simulated;
    const double bandwidth = bus_bandwidth(scene.collective(), scene.bytes(), scene.ranks(), s.seconds);
    const std::string busiest =
        s.busiest.name.empty() ? "-" : fmt::format("{} {:.0f} %", s.busiest.name, 100 * s.busiest.share);
    line(&row == rows.data() ? "*" : " ", row.algorithm->name, time_text(s.seconds), fmt::format("{:.4g}", bandwidth),
         select::share_of_bound(scene.least(), s.seconds), time_text(row.predicted),
         fmt::format("{:.2f}", s.seconds / rows.front().simulated.seconds), busiest);
  }
  if (const auto least = scene.least()) {
    fmt::print("\nbound: {}; {}\n", least->words,
               least->exact ? "trees reach it" : "it may be that no schedule reaches it");
  }
}

std::string json_text(const Scene& scene, const SimOptions& options, const std::vector<Row>& rows) {
  ordered_json page{{"model", kModel},
                    {"engine", options.engine},
                    {"collective", name_of(scene.collective())},
                    {"bytes", scene.bytes()},
                    {"ranks", scene.ranks()},
                    {"hosts", scene.hosts()},
                    {"algorithms", ordered_json::array()}};
  const auto least = scene.least();
  if (least) page["bound"] = {{"seconds", least->seconds}, {"exact", least->exact}, {"certificate", least->words}};
  for (const Row& row : rows) {
    ordered_json one{{"algorithm", row.algorithm->name}, {"formula_seconds", row.predicted}};
    if (row.links) one["links_alone"] = *row.links;
    if (!row.skipped.empty()) {
      one["skipped"] = row.skipped;
      page["algorithms"].push_back(std::move(one));
      continue;
    }
    const sim::Simulated& s = row.simulated;
    one["seconds"] = s.seconds;
    if (s.interval > 0) one["interval"] = s.interval;
    one["busbw"] = bus_bandwidth(scene.collective(), scene.bytes(), scene.ranks(), s.seconds);
    if (least && s.seconds > 0) one["of_bound"] = least->seconds / s.seconds;
    one["messages"] = s.messages;
    one["windows"] = s.rounds;
    one["replayed"] = s.replayed;
    one["verified"] = s.verified;
    one["busiest"] = {{"name", s.busiest.name}, {"share", s.busiest.share}, {"bytes", s.busiest.bytes}};
    page["algorithms"].push_back(std::move(one));
  }
  return page.dump(2) + "\n";
}

void run(const SimOptions& given) {
  SimOptions options = given;
  for (const auto& [option, file] :
       {std::pair{"-o", &options.file}, {"--trace", &options.trace}, {"--svg", &options.svg}})
    check_output(option, *file, {options.scene.topology});
  if (options.width > 0) options.scene.width = options.width;
  if (options.engine == "simgrid" && sim::simgrid_version().empty()) {
    sim::with_simgrid({}, {}, [](sim::Network&) {});  // throws, with the remedy
  }
  Scene scene(read_collective(options.collective, ""), read_call_bytes(options.bytes, "--bytes"), options.scene);
  if (options.width > 0 && !scene.machine().gpus()) {
    throw_error(Code::InvalidArgument,
                "--width {}: it is of programs of GPUs, and these ranks are on cores; leave it out", options.width);
  }
  const bool draws = !options.trace.empty() || !options.svg.empty();
  std::vector<Row> rows;
  const std::vector<select::Candidate> candidates = wanted(scene, options);
  Progress progress;
  for (const select::Candidate& candidate : candidates) {
    progress.show(fmt::format("# {} of {}: {}", rows.size() + 1, candidates.size(), candidate.row.algorithm->name));
    rows.push_back(simulate(scene, candidate, options, draws && rows.empty()));
  }
  progress.clear();
  const std::string title = fmt::format("{} {} of {} on {}", rows.front().algorithm->name, name_of(scene.collective()),
                                        to_text(Bytes{scene.bytes()}), scene.words());
  if (!options.trace.empty())
    write_file("--trace", options.trace, sim::chrome_trace(rows.front().simulated.replay, title));
  if (!options.svg.empty()) write_file("--svg", options.svg, to_svg(picture_of(rows.front().simulated.replay, title)));
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.skipped.empty() != b.skipped.empty()) return a.skipped.empty();
    return a.simulated.seconds < b.simulated.seconds;
  });
  const std::string json = json_text(scene, options, rows);
  if (!options.file.empty()) write_file("-o", options.file, json);
  if (options.json) return fmt::print("{}", json);
  const auto takes_output = [](const std::string& file) { return file == kStandardOutput; };
  if (takes_output(options.file) || takes_output(options.trace) || takes_output(options.svg)) return;
  const std::string with = options.engine == "simgrid" ? "SimGrid " + sim::simgrid_version()
                           : options.engine == "fair"  ? "max-min fair shares"
                           : sim::simgrid_version().empty()
                               ? "equal shares (this build has no SimGrid)"
                               : "equal shares (--engine simgrid: SimGrid " + sim::simgrid_version() + ")";
  fmt::print("{} of {} on {}\n  network: {}\n", name_of(scene.collective()), to_text(Bytes{scene.bytes()}),
             scene.words(), with);
  for (const std::string& note : scene.notes()) fmt::print("  note: {}\n", wrapped(note, 8));
  options.compare ? print_all(scene, rows) : print_one(scene, rows.front(), options);
  fmt::print("\n{}\n", kModel);
}

}  // namespace

void add_sim(CLI::App& app) {
  CLI::App* command = app.add_subcommand("sim", "simulates a call on a machine that need not be there");
  const auto options = std::make_shared<SimOptions>();
  add_call(*command, options->collective, options->bytes, options->scene.ranks);
  command->add_option("--topo", options->scene.topology, "the machine: NCCL's XML, hwloc's XML, or Tutti's JSON")
      ->type_name("FILE");
  add_nvlink(*command, options->scene.nvlink);
  add_without(*command, options->scene.without);
  command->add_option("--hosts", options->scene.hosts, "this many such hosts, joined by a network; default 1")
      ->check(CLI::Range(1, kMaxModelled));
  command->add_option("--root", options->scene.root, "of collectives that have one; default 0")
      ->check(CLI::Range(0, kMaxModelled - 1));
  command->add_option("--algo", options->algorithm, "this algorithm; default the selector's")->type_name("NAME");
  command->add_flag("--compare", options->compare, "simulates all algorithms and ranks them");
  add_engine(*command, options->engine);
  command->add_option("--width", options->width, "fewer windows at a time in each lane of a GPU")
      ->check(CLI::Range(1, 64));
  command->add_option("--trace", options->trace, "writes a Chrome trace of the first windows")->type_name("FILE");
  command->add_option("--svg", options->svg, "draws a timeline of the first windows")->type_name("FILE");
  command->add_option("--calls", options->calls, "calls that each rank makes one right after the other; default 1")
      ->check(CLI::Range(1, 100));
  command->add_flag("--json", options->json, "as JSON, times in seconds");
  add_output(*command,
             {{".svg", "a timeline of the first windows", &options->svg}, {".json", "the results", &options->file}});
  command->footer(
      "A model: docs/simulation.md says what it contains. TUTTI_ALGO, TUTTI_PLAN and TUTTI_REPRODUCIBLE count as in a "
      "communicator.\nExamples:\n  tutti sim all_reduce --bytes 1G --topo hgx.xml --hosts 16 --compare\n"
      "  tutti sim all_gather --bytes 64M -n 4 --trace trace.json -o timeline.svg\n");
  command->callback([options] { run(*options); });
}

}  // namespace tutti::tools
