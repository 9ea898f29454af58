// tutti plan: lists, describes and verifies algorithms.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "plan/algorithm.hpp"
#include "plan/json.hpp"
#include "plan/verify.hpp"
#include "plan/words.hpp"
#include "tools/commands.hpp"
#include "tools/plan/draw.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

constexpr Rank kMostRanks = 4096;
constexpr Rank kMostDrawn = 64;
const CLI::Range kSomeRank(0, kMostRanks - 1);

struct Options {
  std::string algorithm, file;            // an algorithm's name, or that of a file with plans
  std::optional<std::string> collective;  // if not given: the file's, or a default
  std::optional<Rank> of_ranks;
  std::string groups;  // as in TUTTI_GROUPS
  Rank rank = -1;      // all
  Rank root = 0;       // of a drawing

  Rank ranks() const { return of_ranks.value_or(4); }
};

std::string in_ranks(Rank ranks) { return counted(static_cast<uint64_t>(ranks), "rank"); }

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

plan::Shape shape_of(Collective collective, const Options& options) {
  if (options.groups.empty()) return {collective, options.ranks()};
  const auto labels = plan::parse_labels(options.groups, options.ranks(), "--groups");
  return {collective, options.ranks(), std::make_shared<const plan::Grouping>(labels)};
}

/// The default collective: the first one (all_reduce first) that the algorithm implements. Throws if it implements
/// none.
Collective served_by(const std::string& algorithm) {
  std::set<std::string> known;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (plan::find_algorithm(collective, algorithm) != nullptr) return collective;
    for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.insert(a->name);
  }
  const std::vector<std::string> names(known.begin(), known.end());
  throw_error(Code::InvalidArgument, "there is no algorithm '{}'{}; there are {}; see tutti plan list", algorithm,
              did_you_mean(algorithm, names), join(names));
}

const plan::Algorithm& algorithm_of(const Options& options) {
  const Collective collective =
      options.collective ? read_collective(*options.collective, "") : served_by(options.algorithm);
  const plan::Algorithm* found = plan::find_algorithm(collective, options.algorithm);
  if (found == nullptr) {
    std::vector<std::string> known;
    for (const plan::Algorithm* a : plan::algorithms_of(collective)) known.emplace_back(a->name);
    throw_error(Code::InvalidArgument, "{} has no algorithm '{}'{}; it has {}", name_of(collective), options.algorithm,
                did_you_mean(options.algorithm, known), known.empty() ? "none, it is sent directly" : join(known));
  }
  if (!found->allows(shape_of(collective, options))) {
    throw_error(Code::InvalidArgument, "{} {} does not work for {}{} ({})", found->name, name_of(collective),
                in_ranks(options.ranks()), options.groups.empty() ? " without --groups" : "", found->summary);
  }
  return *found;
}

/// Names of algorithms have no dots or slashes.
bool names_file(const Options& options) { return options.algorithm.find_first_of("./") != std::string::npos; }

/// The subject of a command: an algorithm, or plans from a file.
struct Subject {
  std::string title;
  plan::Shape shape;
  const plan::Algorithm* algorithm = nullptr;  ///< null: from a file
  std::vector<plan::RankPlan> plans;           ///< of all ranks; of an algorithm, empty until generated
};

std::string title_of(const plan::Shape& shape, const std::string& name) {
  std::string groups;
  for (Rank r = 0; shape.groups != nullptr && r < shape.ranks; ++r) {
    groups += fmt::format("{}{}", r == 0 ? " in groups " : ",", shape.groups->group_of(r));
  }
  return fmt::format("{} {} on {}{}", name, name_of(shape.collective), in_ranks(shape.ranks), groups);
}

/// Throws if other arguments contradict the file.
void check_against(const plan::Shape& shape, const Options& options) {
  if (options.collective && read_collective(*options.collective, "") != shape.collective) {
    throw_error(Code::InvalidArgument, "{} has plans of {}, not of {}; name the file alone", options.algorithm,
                name_of(shape.collective), *options.collective);
  }
  if (options.of_ranks && *options.of_ranks != shape.ranks) {
    throw_error(Code::InvalidArgument, "{} has plans for {}, not for {}; leave out -n", options.algorithm,
                in_ranks(shape.ranks), *options.of_ranks);
  }
  if (!options.groups.empty()) {
    throw_error(Code::InvalidArgument, "{} has plans that are finished: --groups {} would change nothing; leave it out",
                options.algorithm, options.groups);
  }
}

Subject subject_of(const Options& options, plan::Proof proof = plan::Proof::Demand) {
  if (names_file(options)) {
    plan::PlanSet set = plan::load_plans(options.algorithm, proof);
    const plan::Shape shape = set.plans.front().shape;
    check_against(shape, options);
    return {title_of(shape, set.name.empty() ? options.algorithm : set.name), shape, nullptr, std::move(set.plans)};
  }
  const plan::Algorithm& algorithm = algorithm_of(options);
  const plan::Shape shape = shape_of(algorithm.collective, options);
  return {title_of(shape, algorithm.name), shape, &algorithm, {}};
}

/// The same, with the plans of all ranks.
Subject whole_subject_of(const Options& options, plan::Proof proof = plan::Proof::Demand) {
  Subject subject = subject_of(options, proof);
  if (subject.algorithm != nullptr) subject.plans = plan::generate_all(*subject.algorithm, subject.shape);
  return subject;
}

std::string in_words(plan::Ratio ratio) {
  return ratio.den() == 1 ? fmt::format("{}", ratio.num()) : fmt::format("{}/{}", ratio.num(), ratio.den());
}

constexpr const char* kStandardOutput = "-";

void write(const std::string& text, const std::string& path) {
  if (path == kStandardOutput) return fmt::print("{}", text);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw_error(Code::SystemError, "{}: {}", path, std::strerror(errno));
}

[[noreturn]] void too_many_to_draw(Rank ranks) {
  throw_error(Code::InvalidArgument, "a picture of {} ranks cannot be read; {} is the most", ranks, kMostDrawn);
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

void list(const Options& options) {
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
  if (!options.file.empty()) write(rows.dump(2) + "\n", options.file);
}

/// Ranks that a command names must exist.
void check_rank(const char* what, Rank rank, Rank ranks) {
  if (rank < ranks) return;
  throw_error(Code::InvalidArgument, "{} {} of {}: ranks are 0 to {}", what, rank, in_ranks(ranks), ranks - 1);
}

void print_steps(const plan::RankPlan& plan) {
  fmt::print("\nrank {}\n", plan.rank);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t s = plan.lanes[lane].steps.begin; s < plan.lanes[lane].steps.end; ++s) {
      fmt::print("  {:>3}  lane {}  {}\n", s, lane, plan::in_words(plan, plan.steps[s]));
    }
  }
}

void show(const Options& options) {
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
  fmt::print("  sends lent            {}\n", counted.lends);
  if (reduces(subject.shape.collective)) {
    fmt::print("  reproducible order    {}\n", plan::is_canonical(subject.plans) ? "yes" : "no");
  }
}

int verify(const Options& options) {
  const Subject subject = whole_subject_of(options, plan::Proof::Omit);
  plan::Counted counted;
  try {
    counted = plan::count(subject.plans);  // also verifies them
  } catch (const Error& error) {
    if (error.code() != Code::InvalidArgument) throw;
    fmt::print("{} is WRONG: {}\n", subject.title, error.what());
    return 1;
  }
  print_counted(subject, counted);
  if (subject.algorithm == nullptr) return 0;
  const bool as_claimed = counted.cost == subject.algorithm->cost(subject.shape);
  fmt::print("\n{}\n", as_claimed ? "The cost that the algorithm claims is what was counted."
                                  : "The cost that the algorithm claims is NOT what was counted.");
  return as_claimed ? 0 : 1;
}

/// The subject for a root: plans count ranks, and groups, from the root.
Subject for_root(Subject subject, Rank root) {
  if (root == 0) return subject;
  if (!has_root(subject.shape.collective)) {
    throw_error(Code::InvalidArgument, "{} has no root: leave out --root", name_of(subject.shape.collective));
  }
  subject.title += fmt::format(", root {}", root);
  if (subject.algorithm == nullptr || subject.shape.groups == nullptr) return subject;
  subject.shape.groups = std::make_shared<const plan::Grouping>(subject.shape.groups->seen_from(root));
  return subject;
}

void draw(const Options& options) {
  if (!names_file(options) && options.ranks() > kMostDrawn) too_many_to_draw(options.ranks());
  Subject subject = subject_of(options);
  if (subject.shape.ranks > kMostDrawn) too_many_to_draw(subject.shape.ranks);
  check_rank("--root", options.root, subject.shape.ranks);
  check_rank("--rank", options.rank, subject.shape.ranks);
  subject = for_root(std::move(subject), options.root);
  if (subject.algorithm != nullptr) subject.plans = plan::generate_all(*subject.algorithm, subject.shape);
  if (options.rank >= 0) subject.title += fmt::format(", what rank {} sends and receives", options.rank);
  write(draw_svg(subject.plans, subject.title, {.root = options.root, .rank = options.rank}), options.file);
  if (options.file != kStandardOutput) fmt::print("{} written\n", options.file);
}

void export_plans(const Options& options) {
  const Subject subject = whole_subject_of(options);
  const std::string text = plan::to_json(subject.plans, options.algorithm);
  if (text.size() > plan::kMaxPlanText) {
    fmt::print(stderr, "tutti plan: {} takes {} bytes of text; import, verify and TUTTI_PLAN read at most {}\n",
               subject.title, text.size(), plan::kMaxPlanText);
  }
  const bool to_file = !options.file.empty() && options.file != kStandardOutput;
  write(text, to_file ? options.file : kStandardOutput);
  if (to_file) fmt::print("{}: {}, {} bytes\n", options.file, subject.title, text.size());
}

void import_plans(const Options& options) {
  const plan::PlanSet set = plan::load_plans(options.algorithm);
  if (options.file == kStandardOutput) return write(plan::to_json(set.plans, set.name), options.file);
  const plan::Shape shape = set.plans.front().shape;
  const Subject subject{title_of(shape, set.name.empty() ? "the plan" : set.name), shape, nullptr, set.plans};
  print_counted(subject, plan::count(subject.plans));
  fmt::print("  hash                  {:016x}\n", plan::hash_of(set.plans));
  const std::string& file = options.file.empty() ? options.algorithm : options.file;
  if (!options.file.empty()) write(plan::to_json(set.plans, set.name), file);
  fmt::print("\nTUTTI_PLAN={} runs it for every {} of {}.\n", file, name_of(shape.collective), in_ranks(shape.ranks));
}

void add_shape(CLI::App* command, Options& options) {
  command->add_option("-n", options.of_ranks, "number of ranks; default 4, a file's own")
      ->check(CLI::Range(1, kMostRanks));
  command->add_option(
      "--groups", options.groups,
      "groups of near ranks, for the hierarchical ones: 4 for four neighbours each, or every rank's label, "
      "0,0,1,1");
}

void add_names(CLI::App* command, Options& options) {
  command->add_option("algorithm", options.algorithm, "an algorithm (see tutti plan list), or a file: ring.json")
      ->required();
  command->add_option("collective", options.collective,
                      "all_reduce, all_gather, …; default the first that the algorithm serves, a file's own");
  add_shape(command, options);
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("plan", "the algorithms: lists, shows, proves, draws, exports and imports them");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  tutti plan list -n 8\n  tutti plan show ring all_reduce -n 4 --rank 0\n"
      "  tutti plan verify rabenseifner -n 13\n  tutti plan draw swing all_reduce -n 8 -o swing.svg\n");
  const auto options = std::make_shared<Options>();

  CLI::App* lists = command->add_subcommand("list", "all algorithms, with what they cost");
  add_shape(lists, *options);
  lists->add_option("--json", options->file, "writes the table to a file as well; -: to standard output instead");
  lists->footer("Examples:\n  tutti plan list -n 8\n  tutti plan list -n 8 --groups 4 --json list.json\n");
  lists->callback([options] { list(*options); });

  CLI::App* shows = command->add_subcommand("show", "the steps of an algorithm, rank by rank");
  add_names(shows, *options);
  shows->add_option("--rank", options->rank, "of this rank only; default all")->check(kSomeRank);
  shows->footer(
      "Examples:\n  tutti plan show ring -n 4 --rank 0\n  tutti plan show linear gather -n 5\n"
      "  tutti plan show hierarchical all_reduce -n 5 --groups 0,0,1,1,1\n");
  shows->callback([options] { show(*options); });

  CLI::App* verifies = command->add_subcommand("verify", "proves an algorithm for a number of ranks, and counts");
  add_names(verifies, *options);
  verifies->footer("Examples:\n  tutti plan verify rabenseifner -n 13\n  tutti plan verify mine.json\n");
  verifies->callback([options, &status] { status = verify(*options); });

  CLI::App* draws = command->add_subcommand("draw", "a space-time diagram of an algorithm, as SVG");
  add_names(draws, *options);
  draws->add_option("-o", options->file, "the file; -: standard output")->required();
  draws->add_option("--rank", options->rank, "what this rank sends and receives only; default all")->check(kSomeRank);
  draws->add_option("--root", options->root, "for which root; default 0")->check(kSomeRank);
  draws->footer(
      "Examples:\n  tutti plan draw swing all_reduce -n 8 -o swing.svg\n"
      "  tutti plan draw binomial broadcast -n 16 --root 3 -o tree.svg\n"
      "  tutti plan draw ring -n 64 --rank 5 -o five.svg\n");
  draws->callback([options] { draw(*options); });

  CLI::App* exports = command->add_subcommand("export", "the plans of all ranks, as JSON to be read, kept or changed");
  add_names(exports, *options);
  exports->add_option("-o", options->file, "the file; default: standard output");
  exports->footer("Examples:\n  tutti plan export ring -n 4 -o ring.json\n  tutti plan export swing -n 6\n");
  exports->callback([options] { export_plans(*options); });

  CLI::App* imports = command->add_subcommand("import", "proves plans of a file, and says how to run them");
  imports->add_option("file", options->algorithm, "plans as JSON: see docs/plan-format.md")->required();
  imports->add_option("-o", options->file,
                      "also writes them here, a step a line; -: to standard output, and nothing else");
  imports->footer("Examples:\n  tutti plan import mine.json\n  tutti plan import mine.json -o tidy.json\n");
  imports->callback([options] { import_plans(*options); });
}

}  // namespace tutti::tools
