#include "tools/plan/synth.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "plan/json.hpp"
#include "select/synthesis.hpp"
#include "synth/folding.hpp"
#include "synth/synthesize.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_file.hpp"
#include "tools/perf/options.hpp"
#include "tools/plan/budget.hpp"
#include "tools/plan/machine.hpp"
#include "tools/plan/sizes.hpp"
#include "tools/plan/switched.hpp"
#include "tools/sim/scene.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

struct SynthOptions {
  std::string collective, bytes = "1G", memory = "2G", ranks, file, json, engine = "fair";
  SceneOptions scene;
  int64_t parts = 0;
  bool only_bound = false, no_sim = false, sizes = false, no_switch = false;
};

/// What a call of this size takes at least.
double least_seconds(const synth::Bound& bound, uint64_t bytes) {
  return std::max(bound.seconds_per_byte() * static_cast<double>(bytes), bound.us * 1e-6);
}

struct ComparedRow {
  std::string name;
  uint32_t width = 1;
  uint64_t window = 0;                // bytes of each block
  double seconds = 0;                 // simulated
  std::string busiest;                // or why it was not simulated
  bool made = false, chosen = false;  // of the trees that were made; as the selector would run them
  bool written = false;               // it is what -o writes
};

/// The catalogue's algorithms, and the plan that was made.
class Comparison {
 public:
  Comparison(Scene& scene, const SynthOptions& options, Budget& budget)
      : scene_(scene), options_(options), budget_(budget) {}

  /// `written`: the trees are the plan, not an exchange that a switch runs.
  std::vector<ComparedRow> rows(const plan::Algorithm& made, bool written) {
    const char* const name = written ? "synth" : "trees";
    for (const select::Candidate& candidate : variants(scene_.made(made))) add(candidate, {}, name);
    for (ComparedRow& row : rows_) row.made = true, row.written = written;
    rows_.front().chosen = true;
    for (const select::Candidate& candidate : scene_.candidates()) {
      if (candidate.rejected.empty()) add(candidate, scene_.order(), candidate.row.algorithm->name);
    }
    std::stable_sort(rows_.begin(), rows_.end(), [](const ComparedRow& a, const ComparedRow& b) {
      return std::pair(a.seconds == 0, a.seconds) < std::pair(b.seconds == 0, b.seconds);
    });
    return rows_;
  }

 private:
  /// The selector's width and window, which its model takes for closed forms; wider ones, whose replicas share the same
  /// staging memory; and shorter windows, with which trees fill sooner.
  std::vector<select::Candidate> variants(const select::Candidate& chosen) const {
    constexpr uint64_t kGrain = 128;
    constexpr Rank kFew = 64;  // of more ranks, simulating takes long
    std::vector<select::Candidate> all = {chosen};
    if (!scene_.machine().gpus() || scene_.ranks() > kFew) return all;
    const auto add = [&](uint32_t width, uint64_t part) {
      all.push_back(chosen);
      select::Row& row = all.back().row;
      row.window = std::max(kGrain, row.window * row.width / width / part / kGrain * kGrain);
      row.width = width;
    };
    for (const uint32_t width : {4U, 8U}) {
      if (width > chosen.row.width) add(width, 1);
    }
    for (const uint64_t part : {4, 16}) add(std::max(4U, chosen.row.width), part);
    return all;
  }

  void add(const select::Candidate& candidate, const plan::RankOrder& order, std::string name) {
    const select::Row& how = candidate.row;
    ComparedRow row{
        .name = std::move(name), .width = how.width, .window = select::window_for(how, scene_.block()), .busiest = {}};
    budget_.say("simulating " + row.name);
    try {
      const sim::Simulated result =
          sim::simulate(scene_.call_of(candidate, order), scene_.machine(), effort_of(options_.engine));
      row.seconds = result.seconds;
      row.busiest = fmt::format("{} {:.0f} %", result.busiest.name, 100 * result.busiest.share);
    } catch (const Error& error) {
      if (error.code() != Code::Unsupported) throw;
      row.busiest = error.what();
    }
    rows_.push_back(std::move(row));
  }

  Scene& scene_;
  const SynthOptions& options_;
  Budget& budget_;
  std::vector<ComparedRow> rows_;
};

/// "best", "1.08 times as long"; of the plan as communicators run it, also that.
std::string verdict_of(const ComparedRow& row, const ComparedRow& best) {
  if (row.seconds == 0) return "not simulated";
  const double ratio = row.seconds / best.seconds;
  return (&row == &best ? "best" : fmt::format("{:.2f} times as long", ratio)) + (row.chosen ? ", as it is run" : "");
}

/// `written`: the trees are the plan, not an exchange that a switch runs.
void print_rows(const std::vector<ComparedRow>& rows, double least, bool written) {
  const auto print = [](const char* mark, auto&&... cells) {
    fmt::print("{} {:<22} {:>5} {:>10} {:>10}  {:>12}  {:<33} {}\n", mark, cells...);
  };
  fmt::print("\n");
  print(" ", "algorithm", "width", "window", "simulated", "of the bound", "verdict", "busiest (times in us)");
  for (const ComparedRow& row : rows) {
    const bool known = row.seconds > 0;
    print(row.written ? "*" : " ", row.name, row.width, to_text(Bytes{row.window}),
          known ? time_text(row.seconds) : "-", known ? fmt::format("{:.1f} %", 100 * least / row.seconds) : "-",
          verdict_of(row, rows.front()), row.busiest);
  }
  if (!rows.front().made && written) {
    fmt::print("\nThe best is {} of the catalogue: no plan needs to be made.\n", rows.front().name);
  }
  fmt::print(
      "\nwindow: bytes of each block that are moved at a time; width: windows at a time in each lane. As it is run: "
      "with\n"
      "the width and window that communicators give the plan. Times are a model's, not measured ones.\n");
  if (!written) {
    fmt::print(
        "The simulator knows no switch that folds: the plan made is not among these, and the bound is that of ranks\n"
        "which alone fold.\n");
  }
}

/// Of a bound where switches fold, and of what they fold.
struct WithSwitches {
  std::optional<synth::Bound> bound;  // none: no switch folds, or it changes nothing
  std::optional<Switched> made;
  bool taken() const { return made && made->taken(); }
};

ordered_json json_of(const synth::Network& network, const synth::Bound& bound, uint64_t bytes) {
  return {{"seconds", least_seconds(bound, bytes)},
          {"certificate", synth::words_of(network, bound)},
          {"blocks", bound.cut.must.blocks},
          {"bytes_per_second", static_cast<double>(bound.cut.must.capacity) * bound.unit},
          {"latency", bound.us * 1e-6},
          {"exact", bound.exact}};
}

std::string json_text(const Scene& scene, const synth::Network& network, const synth::Bound& bound,
                      const synth::Synthesis& made, const WithSwitches& switches,
                      const std::vector<ComparedRow>& rows) {
  ordered_json page{{"collective", name_of(scene.collective())},
                    {"bytes", scene.bytes()},
                    {"ranks", scene.ranks()},
                    {"hosts", scene.hosts()},
                    {"bound", json_of(network, bound, scene.bytes())},
                    {"trees", made.trees.size()},
                    {"parts", made.parts},
                    {"parts_of", made.of_buffer ? "buffer" : "block"},
                    {"of_capacities", made.fitted},
                    {"of_trees", made.reached},
                    {"algorithms", ordered_json::array()}};
  if (switches.bound) page["bound_where_switches_fold"] = json_of(network, *switches.bound, scene.bytes());
  if (switches.made) page["switch"] = json_of(*switches.made, *switches.bound, scene.bytes());
  for (const ComparedRow& row : rows) {
    if (row.seconds == 0) continue;
    page["algorithms"].push_back({{"algorithm", row.name},
                                  {"made", row.made},
                                  {"written", row.written},
                                  {"width", row.width},
                                  {"window", row.window},
                                  {"seconds", row.seconds},
                                  {"of_bound", least_seconds(bound, scene.bytes()) / row.seconds}});
  }
  return page.dump(2) + "\n";
}

void print_bound(const Scene& scene, const synth::Network& network, const synth::Bound& bound) {
  fmt::print("{} of {} on {}\n", name_of(scene.collective()), to_text(Bytes{scene.bytes()}), scene.words());
  for (const std::string& note : scene.notes()) fmt::print("  note: {}\n", wrapped(note, 8));
  fmt::print("  bound: {}\n", synth::words_of(network, bound));
  fmt::print("         {}; no message reaches the farthest rank in less than {:.3g} us\n",
             bound.exact ? "trees reach it" : "a lower bound: it may be that no schedule reaches it", bound.us);
}

void print_made(const synth::Synthesis& made, const synth::Bound& bound) {
  constexpr const char* kPatterns[] = {"spread", "doubling", "ring", "pair by pair"};
  const bool to_bound = bound.exact || made.collective == Collective::AllReduce;
  fmt::print("  trees: {} of them, at most {} deep; {} {}; {:.1f} % of the rate {}; {}\n", made.trees.size(),
             made.depth(), counted(static_cast<uint64_t>(made.parts), "part"),
             made.of_buffer ? "of the buffer, up and down at once" : "a block", 100 * made.reached,
             to_bound ? "of the bound" : "that trees can reach",
             made.of_buffer ? "switches: as messages pass them"
                            : fmt::format("switches: {}", kPatterns[static_cast<size_t>(made.pattern)]));
  fmt::print("  verified: right for every message size and every timing\n");
}

/// Writes the plan. It has been verified.
void write_plan(const SynthOptions& options, const std::vector<plan::RankPlan>& plans) {
  const std::string text = plan::to_json(plans, "synth");
  if (text.size() > plan::kMaxPlanText) {
    fmt::print(stderr, "tutti plan: it takes {} bytes of text; import, verify and TUTTI_PLAN read at most {}\n",
               text.size(), plan::kMaxPlanText);
  }
  write_file("-o", options.file, text);
  if (options.file == kStandardOutput || options.json == kStandardOutput) return;
  const std::string calls = options.scene.root > 0 ? fmt::format(", for root {}", options.scene.root) : "";
  fmt::print("  TUTTI_PLAN={} TUTTI_ORDER=natural runs it{} ({} bytes)\n", options.file, calls, text.size());
}

/// Plans for calls of all sizes, and which is for which.
void show_sizes(const SynthOptions& options, Collective collective, const Machine& machine, Budget& budget) {
  const Rank ranks = options.ranks.empty() ? options.scene.ranks : 0;
  select::CostInputs inputs = select::inputs_of(machine.graph, ranks).inputs;
  if (options.no_switch) {
    std::erase_if(inputs.methods, [](const auto& usable) { return usable.method == &exec::methods::nvls; });
  }
  const select::SynthesisedText page = select::synthesise_for(
      machine.graph, machine.nodes, inputs, [&](const std::string& what) { budget.say(what); }, collective);
  budget.say("verifying the plans");
  inputs.synthesised = select::read_synthesised(select::to_text(page), page.key, page.ranks);
  select::add_bound(machine.graph, machine.nodes, collective, {}, inputs);
  const std::vector<SizeRow> rows = sizes_of_plans(collective, inputs);
  if (!options.json.empty()) write_file("--json", options.json, json_of(collective, inputs.ranks, rows));
  fmt::print("\n{}\nTimes are a model's, not measured ones; of the selector, by whose costs communicators choose.\n",
             text_of(rows));
}

/// Files that would not be written.
void refuse_files(const SynthOptions& options) {
  const auto refuse = [](const char* option, const char* why) {
    throw_error(Code::InvalidArgument, "{}: {}; leave one of them out", option, why);
  };
  if (options.only_bound && !options.file.empty()) refuse("-o", "with --bound no plan is made");
  if (options.json.empty()) return;
  if (options.only_bound) refuse("--json", "it writes the table of simulated plans, which --bound does not make");
  if (options.no_sim) refuse("--json", "it writes the table of simulated plans, which --no-sim does not make");
  if (options.file == kStandardOutput) refuse("--json", "-o - is the plan and nothing else");
}

void run(const SynthOptions& options) {
  refuse_files(options);
  check_output("-o", options.file, {options.scene.topology});
  check_output("--json", options.json, {options.scene.topology});
  const Collective collective = read_collective(options.collective, "");
  const uint64_t bytes = read_call_bytes(options.bytes, "--bytes");
  Budget budget(read_call_bytes(options.memory, "--memory"), "tutti plan synth: reading the machine");
  const Machine machine = machine_of(options.scene, options.ranks);
  check_root(options.scene.root, collective, static_cast<Rank>(machine.nodes.size()));
  SceneOptions on = options.scene;
  on.graph = &machine.graph;
  if (!options.ranks.empty()) on.ranks = 0;
  const synth::Network network = synth::network_of(machine.graph, machine.nodes);
  const synth::Network most = synth::network_at_most(machine.graph, machine.nodes);
  Scene scene(collective, bytes, on);
  budget.say("finding the bound");
  const synth::Bound bound = synth::bound_of(most, collective, options.scene.root);
  WithSwitches switches;
  select::CostInputs costs;  // where switches fold
  if (collective == Collective::AllReduce && !most.folding.empty()) {
    switches.bound = synth::folding_bound_of(most);
    costs = inputs_of_catalogue(machine.graph, on.ranks);
  }
  const bool tells = options.file != kStandardOutput && options.json != kStandardOutput;
  if (tells) print_bound(scene, most, bound);
  if (tells && switches.bound) fmt::print("{}", folding_text(most, *switches.bound, why_no_nvls(costs)));
  if (options.only_bound) return;
  if (options.sizes) return show_sizes(options, collective, machine, budget);
  const synth::Synthesis made = synth::synthesize(network, collective,
                                                  {.root = options.scene.root,
                                                   .max_parts = options.parts,
                                                   .progress = [&](const std::string& what) { budget.say(what); }});
  budget.say("verifying the plan");
  const std::vector<plan::RankPlan> plans = synth::plans_of(made);
  const plan::Algorithm& algorithm = plan::adopt("synth", plans);  // verifies
  if (switches.bound && !options.no_switch) {
    switches.made = switched_all_reduce(costs, algorithm, bytes);
  }
  if (tells) print_made(made, bound);
  if (tells && switches.made) fmt::print("{}", text_of(*switches.made, *switches.bound, bytes));
  if (!options.file.empty()) write_plan(options, switches.taken() ? switches.made->plans : plans);
  std::vector<ComparedRow> rows;
  if (!options.no_sim && (tells || !options.json.empty())) {
    rows = Comparison(scene, options, budget).rows(algorithm, !switches.taken());
    if (tells) print_rows(rows, least_seconds(bound, bytes), !switches.taken());
  }
  if (!options.json.empty()) write_file("--json", options.json, json_text(scene, most, bound, made, switches, rows));
}

/// Without memory, it ends with a clear error.
void run_within_budget(const SynthOptions& options) {
  try {
    run(options);
  } catch (const std::bad_alloc&) {
    throw_error(Code::OutOfMemory, "synthesising takes more memory than the {} that --memory allows", options.memory);
  }
}

}  // namespace

void add_synth(CLI::App& plan) {
  CLI::App* command =
      plan.add_subcommand("synth", "a plan made for a machine, beside the least time that any can take");
  const auto options = std::make_shared<SynthOptions>();
  command->add_option("COLLECTIVE", options->collective, "all_gather, reduce_scatter, all_reduce, broadcast or reduce")
      ->required();
  command->add_option("--topo", options->scene.topology, "the machine: NCCL's XML, hwloc's XML, or Tutti's JSON")
      ->required()
      ->type_name("FILE");
  add_nvlink(*command, options->scene.nvlink);
  add_without(*command, options->scene.without);
  command->add_option("--hosts", options->scene.hosts, "this many such hosts, joined by a network; default 1")
      ->check(CLI::Range(1, kMaxModelled));
  command
      ->add_option("-n,--np", options->scene.ranks, "ranks, of all hosts together; default one a GPU, else one a core")
      ->check(CLI::Range(1, kMaxModelled));
  command->add_option("--ranks", options->ranks, "of these ranks of the machine only: 0,2,4-7")->type_name("LIST");
  command
      ->add_option("--root", options->scene.root, "of broadcast and reduce: made for calls with this root; default 0")
      ->check(CLI::Range(0, kMaxModelled));
  command->add_option("--bytes", options->bytes, "the size to simulate; default 1G");
  command
      ->add_option("--parts", options->parts, "parts of a block, each with a tree of its own; default as many as help")
      ->check(CLI::Range(1, 64));
  add_engine(*command, options->engine);
  command->add_flag("--bound", options->only_bound, "says the bound alone; also of all_to_all");
  command->add_flag("--sizes", options->sizes, "which plan is for which size, from 8 B to 1 GiB, in place of --bytes");
  command->add_flag("--no-switch", options->no_switch,
                    "all_reduce: trees alone, also where an NVLink switch folds, and with --sizes nothing by nvls; "
                    "TUTTI_NVLS=0: as if none did");
  command->add_flag("--no-sim", options->no_sim, "does not simulate");
  command->add_option("--memory", options->memory, "how much memory it may take; default 2G");
  command->add_option("-o", options->file, "writes the plan; -: to standard output, and nothing else")
      ->type_name("FILE");
  command->add_option("--json", options->json, "also writes the table")->type_name("FILE");
  command->footer(
      "docs/synthesis.md explains it.\nExamples:\n  tutti plan synth all_gather --topo hgx.xml -o a.json\n"
      "  tutti plan synth all_reduce --topo hgx.xml --hosts 4 --ranks 0-3,8-11\n"
      "  tutti plan synth all_to_all --topo hgx.xml --bound\n"
      "  tutti plan synth all_reduce --topo hgx.xml --no-switch -o trees.json\n");
  command->callback([options] { run_within_budget(*options); });
}

}  // namespace tutti::tools
