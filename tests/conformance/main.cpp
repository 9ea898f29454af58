// The conformance table: every collective, element type, operator, size, root, in place or not, on every transport and
// with every algorithm, compared with exact results. Prints how many calls were checked and how many were wrong.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdlib>
#include <set>

#include "base/format.hpp"
#include "conformance/rank_group.hpp"
#include "exec/backend.hpp"
#include "plan/algorithm.hpp"

namespace tutti::conformance {
namespace {

struct Options {
  std::string transport = "local", backend;
  int ranks = 2;
  bool threads = false, exhaustive = false, only_forced = false, only_sums = false, reduced = false;
};

/// Where the ranks run, and what they may use.
struct Placement {
  int processes;
  std::string transport;  // TUTTI_TRANSPORT; empty: the best for each pair
};

Placement placement_of(const Options& options) {
  if (options.transport == "mixed") return {std::min(2, options.ranks), ""};
  return {options.threads || options.transport == "local" ? 1 : options.ranks, options.transport};
}

/// The TUTTI_ALGO that forces the algorithm of this name for all collectives that have it and for which may(algorithm);
/// "" if none.
template <class May>
std::string forcing_where(const std::string& name, const May& may) {
  std::string text;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    const plan::Algorithm* algorithm = plan::find_algorithm(collective, name);
    if (algorithm == nullptr || !may(*algorithm)) continue;
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name_of(collective), name);
  }
  return text;
}

/// May n ranks, in these groups if any, use it?
std::string forcing(const std::string& name, int ranks, const std::string& groups = "") {
  const auto grouping =
      groups.empty() ? nullptr
                     : std::make_shared<const plan::Grouping>(plan::parse_labels(groups, ranks, "the test's grouping"));
  return forcing_where(name, [&](const plan::Algorithm& a) { return a.allows({a.collective, ranks, grouping}); });
}

std::set<std::string> algorithm_names() {
  std::set<std::string> names;
  for (int i = 0; i < kCollectives; ++i) {
    for (const plan::Algorithm* a : plan::algorithms_of(static_cast<Collective>(i))) names.insert(a->name);
  }
  return names;
}

/// Groups for n ranks: halves, uneven ones, and neighbours apart.
std::vector<std::string> groupings(int ranks) {
  if (ranks == 1) return {"1"};  // a list of one label would be a size
  std::vector<std::string> found(3);
  for (int r = 0; r < ranks; ++r) {
    const char* const comma = r == 0 ? "" : ",";
    found[0] += fmt::format("{}{}", comma, 2 * r / ranks);
    found[1] += fmt::format("{}{}", comma, r == 0 ? 7 : r < 3 ? 5 : 6);
    found[2] += fmt::format("{}{}", comma, r % 3 % 2);
  }
  if (ranks == 2) found.resize(1);
  return found;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

class Table {
 public:
  explicit Table(const Options& options) : options_(options), placement_(placement_of(options)) {}

  void run(const std::string& name, const Sweep& sweep, Environment environment, bool mapped = false) {
    Conditions conditions{.name = name + (mapped ? ", tuttiMemAlloc" : ""), .mapped = mapped};
    run(std::move(conditions), list_cases(sweep, options_.ranks), std::move(environment));
  }
  void run_reproducible_sums(Environment environment = {}) {
    std::string name = "TUTTI_REPRODUCIBLE=1";
    for (const auto& [variable, value] : environment) name += fmt::format(" {}={}", variable, value);
    environment.emplace_back("TUTTI_REPRODUCIBLE", "1");
    run(Conditions{.name = name, .sums = true}, {}, std::move(environment));
  }

  /// Prints the table. True if nothing was wrong.
  bool print() const {
    uint64_t cases = 0, wrong = 0;
    fmt::print("{:<16}{:<14}{:>4}{:>12}{:>9}\n", "collective", "transport", "n", "calls", "#wrong");
    for (size_t row = 0; row < kCollectives; ++row) {
      fmt::print("{:<16}{:<14}{:>4}{:>12}{:>9}\n", name_of(static_cast<Collective>(row)), options_.transport,
                 options_.ranks, cases_[row], wrong_[row]);
      cases += cases_[row];
      wrong += wrong_[row];
    }
    fmt::print("{:<16}{:<14}{:>4}{:>12}{:>9}\n", "all", options_.transport, options_.ranks, cases, wrong);
    return wrong == 0;
  }

 private:
  void run(Conditions conditions, const std::vector<Case>& cases, Environment environment) {
    conditions.ranks = options_.ranks;
    conditions.processes = placement_.processes;
    conditions.environment = std::move(environment);
    conditions.environment.emplace_back("TUTTI_TRANSPORT", placement_.transport);
    conditions.environment.emplace_back("TUTTI_TIMEOUT", "60");
    conditions.seconds = options_.exhaustive ? 3000 : 280;
    for (const Findings& found : conformance::run(conditions, cases)) {
      for (size_t row = 0; row < kCollectives; ++row) {
        cases_[row] += found.cases[row];
        wrong_[row] += found.wrong[row];
      }
      if (found.first[0] != 0) fmt::print("WRONG  {}: {}\n", conditions.name, found.first);
    }
    std::fflush(stdout);
  }

  Options options_;
  Placement placement_;
  std::array<uint64_t, kCollectives> cases_{}, wrong_{};
};

void run_along_groups(Table& table, const std::string& name, int ranks, const Environment& common) {
  for (const std::string& groups : groupings(ranks)) {
    const std::string forced = forcing(name, ranks, groups);
    if (forced.empty()) continue;
    Environment environment = common;
    environment.emplace_back("TUTTI_ALGO", forced);
    environment.emplace_back("TUTTI_GROUPS", groups);
    table.run(fmt::format("TUTTI_GROUPS={} TUTTI_ALGO={}", groups, forced), few_kinds(ranks), environment);
  }
}

/// With every allowed algorithm, in short and long messages.
bool run_sums_table(const Options& options) {
  Table table(options);
  for (const std::string& name : algorithm_names()) {
    const std::string forced = forcing_where(name, [&](const plan::Algorithm& a) {
      return a.canonical && a.allows({a.collective, options.ranks});
    });
    if (forced.empty()) continue;
    for (const char* message : {"8K", "256K"}) {
      table.run_reproducible_sums({{"TUTTI_ALGO", forced}, {"TUTTI_MESSAGE", message}});
    }
  }
  return table.print();
}

bool run_table(const Options& options) {
  // Little memory and short messages: many rounds, reused slots, reassigned staging memory.
  const int n = options.ranks;
  const char* threads = std::getenv("TUTTI_THREADS");  // not by env(), which ranks read later
  const int arena = (n > 8 ? 2048 : n > 3 ? 320 : 80) * (threads == nullptr ? 1 : std::atoi(threads));  // KiB
  const Environment tight = {{"TUTTI_MESSAGE", n > 8   ? "16K"
                                               : n > 3 ? "2K"
                                                       : "512"},
                             {"TUTTI_ARENA", fmt::format("{}K", arena)}};
  Table table(options);
  if (options.reduced) {
    table.run("few kinds, little memory", few_kinds(n), tight);
    table.run("few kinds", few_kinds(n), {});
    return table.print();
  }
  if (!options.only_forced) {
    table.run("all kinds, little memory", all_kinds(n, options.exhaustive), tight);
    table.run("many sizes", many_sizes(options.exhaustive), {});
    if (options.transport == "shm") {
      for (const bool mapped : {false, true}) {
        table.run("many sizes, TUTTI_CMA=always", many_sizes(options.exhaustive), {{"TUTTI_CMA", "always"}}, mapped);
      }
    }
    table.run_reproducible_sums();
  }
  for (const std::string& name : algorithm_names()) {
    const std::string forced = forcing(name, n);
    if (forced.empty()) {
      run_along_groups(table, name, n, tight);
      continue;
    }
    auto environment = tight;
    environment.emplace_back("TUTTI_ALGO", forced);
    if (options.only_forced) environment.emplace_back("TUTTI_CMA", "always");
    table.run("TUTTI_ALGO=" + forced, few_kinds(n), environment);
    if (options.only_forced && options.transport == "shm") {
      table.run("TUTTI_ALGO=" + forced, few_kinds(n), environment, true);
    }
  }
  return table.print();
}

/// Why the table would not check this backend; "" if it does: then it owns the memory that the table uses.
std::string why_not_checked(const std::string& backend) {
  for (const auto* modules : {&exec::unusable_backends(), &transports::unusable_modules()}) {
    for (const auto& [name, why_not] : *modules) {
      if (name == backend) return why_not;
    }
  }
  for (const exec::BackendEntry* entry : exec::backends()) {
    if (entry->name != backend) continue;
    if (entry->current() == exec::kNoProcessor) return entry->why_none;
    const std::vector<unsigned char> memory(4096);
    return entry->owns(memory.data()) ? "" : "it does not own the table's memory, which is of operator new";
  }
  return "there is none of this name";
}

/// In a process of its own: each row has another environment, which a process reads once.
bool is_checked(const std::string& backend) {
  if (backend.empty()) return true;
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string why = why_not_checked(backend);
    if (!why.empty()) fmt::print(stderr, "tutti_conformance: backend {}: {}\n", backend, why);
    std::_Exit(why.empty() ? 0 : 1);
  }
  int status = 1;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status);
  if (!ended) fmt::print(stderr, "tutti_conformance: backend {}: it could not be asked\n", backend);
  return ended && WEXITSTATUS(status) == 0;
}

}  // namespace
}  // namespace tutti::conformance

int main(int argc, char** argv) {
  tutti::conformance::Options options;
  CLI::App app("Checks every collective against exact results.\nExample: tutti_conformance --transport shm -n 5");
  app.add_option("--transport", options.transport, "its name, as in TUTTI_TRANSPORT; mixed: two processes of threads");
  app.add_option("--backend", options.backend, "fails unless calls run on it");
  app.add_flag("--threads", options.threads, "ranks are threads of one process, not processes");
  app.add_option("-n", options.ranks, "number of ranks")->check(CLI::Range(1, tutti::conformance::kMaxRanks));
  app.add_flag("--only-forced", options.only_forced, "each algorithm forced, and nothing else; with TUTTI_CMA=always");
  app.add_flag("--only-sums", options.only_sums, "sums in the reproducible mode, by each algorithm; nothing else");
  app.add_flag("--reduced", options.reduced, "few types and counts, and each collective's own choice of algorithm");
  app.add_flag("--exhaustive", options.exhaustive, "more counts and types; takes many minutes");
  CLI11_PARSE(app, argc, argv);
  using namespace tutti::conformance;
  if (!is_checked(options.backend)) return 2;
  return (options.only_sums ? run_sums_table : run_table)(options) ? 0 : 1;
}
