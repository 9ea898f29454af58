// Random programs with one fault each: no silent hang, no crash, no wrong data, no false alarm, and every error names
// the culprit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "attack/job.hpp"
#include "attack/play.hpp"

namespace tutti::attack {
namespace {

struct Options {
  uint64_t seed = 1;
  int programs = 0;
  double seconds = 0;
  int jobs = 2;
  int process = -1;
  std::string id;
  bool verbose = false;
  Choice choice;
};

struct Tally {
  int programs = 0;
  std::map<std::string, int> findings;  // by kind
};

class Attack {
 public:
  explicit Attack(const Options& options) : options_(options) {}

  int go() {
    std::vector<std::thread> workers;
    for (int i = 0; i < options_.jobs; ++i) workers.emplace_back([this] { work(); });
    for (std::thread& worker : workers) worker.join();
    return report();
  }

 private:
  bool more(uint64_t done) const {
    if (options_.programs > 0 && done >= static_cast<uint64_t>(options_.programs)) return false;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return options_.seconds <= 0 || passed.count() < options_.seconds;
  }

  void work() {
    for (uint64_t done; more(done = next_++);) one(options_.seed + done);
  }

  void one(uint64_t seed) {
    constexpr double kTooLong = 60;  // seconds; the ranks' own time-out is 15
    const Program program = make_program(seed, options_.choice);
    const std::vector<std::string> arguments = {
        "--seed",  std::to_string(seed),  "--transport", options_.choice.transport,
        "--fault", options_.choice.fault, "--ranks",     std::to_string(options_.choice.max_ranks)};
    const Outcome outcome = run(program, arguments, kTooLong, options_.verbose);
    const auto findings = judge(program, outcome);
    const std::lock_guard lock(mutex_);
    Tally& tally = tallies_[program.fault];
    ++tally.programs;
    std::map<std::string, bool> kinds;
    for (const Finding& finding : findings) kinds[finding.kind] = true;
    for (const auto& [kind, there] : kinds) ++tally.findings[kind];
    if (options_.verbose || !findings.empty()) fmt::print("{}", describe(program));
    if (options_.verbose) print(outcome);
    for (const Finding& finding : findings) fmt::print("  {}: {}\n", finding.kind, finding.text);
    std::fflush(stdout);
  }

  static void print(const Outcome& outcome) {
    for (size_t rank = 0; rank < outcome.results.size(); ++rank) {
      for (const LineResult& report : outcome.results[rank])
        fmt::print("  rank {} line {:2}: {} {:.3f} s {}\n", rank, report.index, report.code, report.seconds,
                   report.text);
    }
  }

  int report() const {
    constexpr const char* kKinds[] = {"hang", "crash", "data", "alarm", "silent", "code", "unnamed", "slow", "inexact"};
    fmt::print("\n{:<10} {:>9}", "fault", "programs");
    for (const char* kind : kKinds) fmt::print(" {:>8}", kind);
    fmt::print("\n");
    int programs = 0, bad = 0;
    for (const auto& [fault, tally] : tallies_) {
      fmt::print("{:<10} {:>9}", name_of(fault), tally.programs);
      programs += tally.programs;
      for (const char* kind : kKinds) {
        const auto found = tally.findings.find(kind);
        const int n = found == tally.findings.end() ? 0 : found->second;
        fmt::print(" {:>8}", n);
        if (std::string(kind) != "inexact") bad += n;
      }
      fmt::print("\n");
    }
    fmt::print("\n{} programs, {} findings\n", programs, bad);
    return bad == 0 ? 0 : 1;
  }

  const Options& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<uint64_t> next_{0};
  std::mutex mutex_;
  std::map<Fault, Tally> tallies_;
};

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Runs random programs with one fault each and holds the errors against what Tutti promises.");
  app.add_option("--seed", options.seed, "of the first program; the next has the next")->capture_default_str();
  app.add_option("--programs", options.programs, "how many; 0: until the time is over");
  app.add_option("--seconds", options.seconds, "for how long; 0: until all programs are done");
  app.add_option("--jobs", options.jobs, "programs at a time")->capture_default_str();
  app.add_option("--transport", options.choice.transport, "local, shm, tcp or mixed; default: any");
  app.add_option("--fault", options.choice.fault, "one kind of fault; default: any");
  app.add_option("--ranks", options.choice.max_ranks, "the most")->capture_default_str();
  app.add_flag("--verbose", options.verbose, "print every program and all that its ranks tell");
  app.add_option("--process", options.process)->group("");
  app.add_option("--id", options.id)->group("");
  app.footer("Example, one program again: tutti_attack --seed 4711 --programs 1 --verbose");
  CLI11_PARSE(app, argc, argv);
  if (options.process >= 0) return play(make_program(options.seed, options.choice), options.process, options.id);
  if (options.programs == 0 && options.seconds <= 0) options.programs = 50;
  return Attack(options).go();
}

}  // namespace
}  // namespace tutti::attack

int main(int argc, char** argv) { return tutti::attack::main_of(argc, argv); }
