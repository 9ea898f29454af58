// tutti plan: lists, describes and verifies algorithms.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "plan/algorithm.hpp"
#include "plan/json.hpp"
#include "plan/verify.hpp"
#include "plan/words.hpp"
#include "proof/cases.hpp"
#include "tools/commands.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_option.hpp"
#include "tools/plan/budget.hpp"
#include "tools/plan/pictures.hpp"
#include "tools/plan/subject.hpp"
#include "tools/plan/synth.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr Rank kMaxPlanRanks = 4096;
const CLI::Range kSomeRank(0, kMaxPlanRanks - 1);

/// Runs what may be large: not beyond --memory, and with a line on a terminal that says what takes so long.
template <class Work>
auto within_budget(const PlanOptions& options, const char* doing, const Work& work) {
  const std::string what =
      names_file(options) ? options.algorithm : fmt::format("{} on {}", options.algorithm, in_ranks(options.ranks()));
  const Budget budget(read_call_bytes(options.memory, "--memory"), fmt::format("{} {}", doing, what));
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw_error(Code::OutOfMemory, "{} {} takes more memory than the {} that --memory allows", doing, what,
                options.memory);
  }
}

std::string in_words(plan::Ratio ratio) {
  return ratio.den() == 1 ? fmt::format("{}", ratio.num()) : fmt::format("{}/{}", ratio.num(), ratio.den());
}

/// The numbers of ranks that are supported: a rule that holds for all that were tested.
const char* allowed_ranks(const plan::Algorithm& algorithm) {
  constexpr Rank kAsked = 64;
  bool any = true, powers = true, groups = true;
  for (Rank n = 1; n <= kAsked; ++n) {
    const plan::Shape shape{algorithm.collective, n};
    const auto grouping = std::make_shared<const plan::Grouping>(plan::parse_labels("2", n, ""));
    const bool allowed = algorithm.allows(shape);
    any = any && allowed;
    powers = powers && allowed == plan::power_of_two(n);
    groups = groups && !allowed && algorithm.allows({algorithm.collective, n, grouping});
  }
  return any ? "any" : powers ? "2^k" : groups ? "groups" : "some";
}

void list(const PlanOptions& options) {
  check_output("-o", options.file);
  ordered_json rows = ordered_json::array();
  std::string table = fmt::format("For {}; amounts are the busiest rank's, in units of the call's count\n\n",
                                  in_ranks(options.ranks()));
  const auto add = [&table](auto&&... cells) {
    table += fmt::format("{:<14} {:<18} {:<6} {:>6} {:>9} {:>9} {:>9}  {:<5} {}\n", cells...);
  };
  add("collective", "algorithm", "n", "rounds", "sent", "received", "folded", "repr.", "what it does");
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const plan::Algorithm* a : plan::algorithms_of(collective)) {
      const plan::Shape shape = shape_of(collective, options);
      const bool allowed = a->allows(shape);
      const plan::Cost cost = allowed ? a->cost(shape) : plan::Cost{};
      const auto figure = [&](plan::Ratio r) { return allowed ? in_words(r) : "-"; };
      add(name_of(collective), a->name, allowed_ranks(*a), figure(cost.rounds), figure(cost.sent),
          figure(cost.received), figure(cost.folded), a->canonical ? "yes" : "", a->summary);
      rows.push_back({{"collective", name_of(collective)},
                      {"algorithm", a->name},
                      {"summary", a->summary},
                      {"ranks", allowed_ranks(*a)},
                      {"allowed", allowed},
                      {"reproducible", a->canonical},
                      {"rounds", cost.rounds},
                      {"sent", cost.sent.value()},
                      {"received", cost.received.value()},
                      {"folded", cost.folded.value()}});
    }
  }
  table +=
      "\nn: for how many ranks; groups: for any number of them where groups of near ones are known (--groups)\n"
      "repr.: folds in the canonical order, so TUTTI_REPRODUCIBLE=1 may use it\n";
  if (options.file != kStandardOutput) fmt::print("{}", table);
  if (!options.file.empty()) write_file("-o", options.file, rows.dump(2) + "\n");
}

void print_steps(const plan::RankPlan& plan) {
  fmt::print("\nrank {}\n", plan.rank);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t s = plan.lanes[lane].steps.begin; s < plan.lanes[lane].steps.end; ++s) {
      fmt::print("  {:>3}  lane {}  {}\n", s, lane, plan::in_words(plan, plan.steps[s]));
    }
  }
}

void show(const PlanOptions& options) {
  const Subject subject = subject_of(options);
  const Rank ranks = subject.shape.ranks;
  check_rank("--rank", options.rank, ranks);
  fmt::print("{}{}{}\n", subject.title, subject.algorithm == nullptr ? "" : ": ",
             subject.algorithm == nullptr ? "" : subject.algorithm->summary);
  const Rank first = std::max(options.rank, 0), end = options.rank < 0 ? ranks : options.rank + 1;
  for (Rank r = first; r < end; ++r) {  // one at a time: all plans together may be large
    if (subject.algorithm == nullptr) {
      print_steps(subject.plans[static_cast<size_t>(r)]);
    } else {
      print_steps(plan::generate(*subject.algorithm, subject.shape, r));
    }
  }
  fmt::print(
      "\nlend: readers may read it where it lies; > to ranks, < from a rank; #2: block 2; [1/4]: chunk 1 of 4 of the\n"
      "window; complete: the fold after which every contribution is in\n");
}

void print_counted(const Subject& subject, const plan::Counted& counted) {
  const plan::Cost& does = counted.cost;
  size_t steps = 0;
  for (const plan::RankPlan& plan : subject.plans) steps += plan.steps.size();
  fmt::print("{} is right, for every message size and every timing.\n\n", subject.title);
  fmt::print("  steps, of all ranks   {}\n  lanes                 {}\n  links                 {}\n", steps,
             subject.plans.front().lanes.size(), counted.links.size());
  fmt::print("  rounds                {}\n  sent, busiest rank    {}\n  received              {}\n", does.rounds,
             in_words(does.sent), in_words(does.received));
  fmt::print("  folded                {}\n  largest message       {}\n", in_words(does.folded), in_words(does.message));
  fmt::print("  busiest link          {}\n  sets of readers       {}\n  sends lent            {}\n",
             in_words(does.busiest_link()), does.stages, counted.lends);
  if (reduces(subject.shape.collective)) {
    fmt::print("  reproducible order    {}\n", plan::is_canonical(subject.plans) ? "yes" : "no");
  }
}

/// What an algorithm's cost function says otherwise. The names are those of plan::Cost.
void print_differences(const plan::Cost& counted, const plan::Cost& claimed) {
  const auto field = [](const char* name, plan::Ratio is, plan::Ratio said) {
    if (!(is == said)) fmt::print("  {:<10} counted {}, claimed {}\n", name, in_words(is), in_words(said));
  };
  field("rounds", counted.rounds, claimed.rounds);
  field("sent", counted.sent, claimed.sent);
  field("received", counted.received, claimed.received);
  field("folded", counted.folded, claimed.folded);
  field("stages", counted.stages, claimed.stages);
  field("message", counted.message, claimed.message);
  field("link", counted.busiest_link(), claimed.busiest_link());
  if (!(claimed.handled == plan::Ratio(0))) field("handled", counted.handled, claimed.handled);
}

/// Proves the programs that each method makes of the plans, and prints a line for each. False: one is wrong.
bool prove_programs(std::span<const plan::RankPlan> plans) {
  constexpr Rank kMaxProvenRanks = 16;  // more would take minutes
  if (plans.size() > static_cast<size_t>(kMaxProvenRanks)) {
    fmt::print("\nThe programs that methods make of it are proven for up to {} ranks: give fewer for that.\n",
               kMaxProvenRanks);
    return true;
  }
  fmt::print("\nThe programs that methods make of it, executed symbolically for each kind of delivery\n\n");
  bool all = true;
  for (const proof::MethodProof& proof : proof::prove_methods(plans)) {
    if (proof.verdict.too_large)
      throw_error(Code::Unsupported, "{} is not proven: {}", proof.method, proof.verdict.reason);
    all = all && proof.verdict;
    const std::string text = !proof.why_not.empty() ? "does not run it: " + proof.why_not
                             : proof.verdict        ? fmt::format("right: {}", fmt::join(proof.cases, "; "))
                                                    : "WRONG: " + proof.verdict.reason;
    fmt::print("  {:<12}{}\n", proof.method, wrapped(text, 14));
  }
  return all;
}

int verify(const PlanOptions& options) {
  const Subject subject = whole_subject_of(options, plan::Proof::Omit);
  plan::Counted counted;
  try {
    counted = plan::count(subject.plans);  // also verifies them
  } catch (const Error& error) {
    if (error.code() == Code::Unsupported) {
      throw_error(error.code(), "{} is not proven: {} (--memory {}; fewer ranks prove the rule as well)", subject.title,
                  error.what(), options.memory);
    }
    if (error.code() != Code::InvalidArgument) throw;
    fmt::print("{} is WRONG: {}\n", subject.title, error.what());
    return 1;
  }
  print_counted(subject, counted);
  const bool runs = within_budget(options, "proving", [&] { return prove_programs(subject.plans); });
  if (subject.algorithm == nullptr) return runs ? 0 : 1;
  const plan::Cost claimed = subject.algorithm->cost(subject.shape);
  const bool as_claimed = claimed.claims(counted.cost);
  fmt::print("\nThe cost that the algorithm claims is {}what was counted.\n", as_claimed ? "" : "NOT ");
  if (!as_claimed) print_differences(counted.cost, claimed);
  return as_claimed && runs ? 0 : 1;
}

void export_plans(const PlanOptions& options) {
  check_output("-o", options.file, {options.algorithm});
  const Subject subject = whole_subject_of(options);
  const std::string text = plan::to_json(subject.plans, options.algorithm);
  if (text.size() > plan::kMaxPlanText) {
    fmt::print(stderr, "tutti plan: {} takes {} bytes of text; import, verify and TUTTI_PLAN read at most {}\n",
               subject.title, text.size(), plan::kMaxPlanText);
  }
  const bool to_file = !options.file.empty() && options.file != kStandardOutput;
  write_file("-o", to_file ? options.file : kStandardOutput, text);
  if (to_file) fmt::print("{}: {}, {} bytes\n", options.file, subject.title, text.size());
}

void import_plans(const PlanOptions& options) {
  check_output("-o", options.file);  // it may be the file itself, which is read whole before
  const plan::PlanSet set = plan::load_plans(options.algorithm);
  if (options.file == kStandardOutput) return write_file("-o", options.file, plan::to_json(set.plans, set.name));
  const plan::Shape shape = set.plans.front().shape;
  const Subject subject{title_of(shape, set.name.empty() ? "the plan" : set.name), shape, nullptr, set.plans};
  print_counted(subject, plan::count(subject.plans));
  fmt::print("  hash                  {:016x}\n", plan::hash_of(set.plans));
  const std::string& file = options.file.empty() ? options.algorithm : options.file;
  if (!options.file.empty()) write_file("-o", file, plan::to_json(set.plans, set.name));
  fmt::print("\nTUTTI_PLAN={} runs it for every {} of {}.\n", file, name_of(shape.collective), in_ranks(shape.ranks));
}

void add_shape(CLI::App* command, PlanOptions& options) {
  command->add_option("-n,--np", options.of_ranks, "number of ranks; default 4, a file's own")
      ->check(CLI::Range(1, kMaxPlanRanks));
  command->add_option(
      "--groups", options.groups,
      "groups of near ranks, for the hierarchical ones: 4 for four neighbours each, or every rank's label, "
      "0,0,1,1");
}

void add_machine(CLI::App* draws, PlanOptions& options) {
  CLI::Option* topo =
      draws->add_option("--topo", options.scene.topology,
                        "draws the plan over this machine: its trees, how busy links are, the bound's cut");
  topo->type_name("FILE");
  draws->add_option("--hosts", options.scene.hosts, "this many such hosts; default 1")
      ->check(CLI::Range(1, kMaxModelled))
      ->needs(topo);
  draws->add_option("--ranks", options.on_ranks, "of these ranks of the machine only: 0,2,4-7")->needs(topo);
  draws->add_option("--tree", options.tree, "the tree that is drawn over the machine; default 0, the first")
      ->needs(topo);
  add_nvlink(*draws, options.scene.nvlink);
  add_without(*draws, options.scene.without);
}

void add_memory(CLI::App* command, PlanOptions& options) {
  command->add_option("--memory", options.memory, "how much memory it may take; default 2G");
}

void add_names(CLI::App* command, PlanOptions& options) {
  command
      ->add_option(
          "COLLECTIVE ALGORITHM", options.words,
          "all_reduce ring (see tutti plan list); an algorithm alone: of the first collective that it serves; or "
          "a file: ring.json")
      ->required()
      ->expected(1, 2)
      ->type_name("");
  add_shape(command, options);
  command->parse_complete_callback([&options] { take_words(options); });
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "plan", "the algorithms: lists, shows, proves, draws, exports and imports them, and makes plans for a machine");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  tutti plan list -n 8\n  tutti plan show all_reduce ring -n 4 --rank 0\n"
      "  tutti plan verify all_reduce rabenseifner -n 13\n  tutti plan draw all_reduce swing -n 8 -o swing.svg\n"
      "  tutti plan synth all_gather --topo hgx.xml -o made.json\n");
  const auto options = std::make_shared<PlanOptions>();

  CLI::App* lists = command->add_subcommand("list", "all algorithms, with what they cost");
  add_shape(lists, *options);
  lists->add_option("-o,--json", options->file, "writes the table to a file as well; -: to standard output instead");
  lists->footer("Examples:\n  tutti plan list -n 8\n  tutti plan list -n 8 --groups 4 --json list.json\n");
  lists->callback([options] { list(*options); });

  CLI::App* shows = command->add_subcommand("show", "the steps of an algorithm, rank by rank");
  add_names(shows, *options);
  shows->add_option("--rank", options->rank, "of this rank only; default all")->check(kSomeRank);
  shows->footer(
      "Examples:\n  tutti plan show all_reduce ring -n 4 --rank 0\n  tutti plan show gather linear -n 5\n"
      "  tutti plan show all_reduce hierarchical -n 5 --groups 0,0,1,1,1\n");
  shows->callback([options] { show(*options); });

  CLI::App* verifies = command->add_subcommand("verify", "proves an algorithm, and what each method makes of it");
  add_names(verifies, *options);
  verifies->footer("Examples:\n  tutti plan verify all_reduce rabenseifner -n 13\n  tutti plan verify mine.json\n");
  add_memory(verifies, *options);
  verifies->callback(
      [options, &status] { status = within_budget(*options, "proving", [&] { return verify(*options); }); });

  CLI::App* draws = command->add_subcommand(
      "draw", "a space-time diagram of an algorithm, or with --topo its trees on a machine, as SVG");
  add_names(draws, *options);
  add_output(*draws, {{".svg", "the picture", &options->file}})->required();
  draws->add_option("--rank", options->rank, "what this rank sends and receives only; default all")->check(kSomeRank);
  draws->add_option("--root", options->root, "for which root; default 0")->check(kSomeRank);
  draws->footer(
      "Examples:\n  tutti plan draw all_reduce swing -n 8 -o swing.svg\n"
      "  tutti plan draw broadcast binomial -n 16 --root 3 -o tree.svg\n"
      "  tutti plan draw all_reduce ring -n 64 --rank 5 -o five.svg\n"
      "  tutti plan draw made.json --topo hgx.xml -o machine.svg\n");
  add_machine(draws, *options);
  draws->callback([options] { draw(*options); });

  CLI::App* exports = command->add_subcommand("export", "the plans of all ranks, as JSON to be read, kept or changed");
  add_names(exports, *options);
  exports->add_option("-o", options->file, "the file; default: standard output");
  exports->footer(
      "Examples:\n  tutti plan export all_reduce ring -n 4 -o ring.json\n  tutti plan export all_to_all bruck -n 6\n");
  add_memory(exports, *options);
  exports->callback([options] { within_budget(*options, "writing", [&] { export_plans(*options); }); });

  CLI::App* imports = command->add_subcommand("import", "proves plans of a file, and says how to run them");
  imports->add_option("file", options->algorithm, "plans as JSON: see docs/plan-format.md")->required();
  imports->add_option("-o", options->file,
                      "also writes them here, a step a line; -: to standard output, and nothing else");
  imports->footer("Examples:\n  tutti plan import mine.json\n  tutti plan import mine.json -o tidy.json\n");
  add_memory(imports, *options);
  imports->callback([options] { within_budget(*options, "proving", [&] { import_plans(*options); }); });

  add_synth(*command);
}

}  // namespace tutti::tools
