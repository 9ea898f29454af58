// tutti lab: which layout a training job should have, what it takes, and why.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/lab/options.hpp"
#include "tools/lab/page.hpp"
#include "tools/lab/report.hpp"
#include "tools/output_file.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;

/// Neither is about one plan, which is what files have.
void refuse_files(const LabOptions& options) {
  if (!options.published && !options.largest) return;
  if (options.json.empty() && options.html.empty()) return;
  throw_error(Code::InvalidArgument, "{} prints text and writes no file: leave out -o, --json and --html",
              options.published ? "--published" : "--largest");
}

void plan_training(LabOptions options) {
  if (options.recompute) {
    const std::string& word = *options.recompute;
    if (word != "none" && word != "selective" && word != "all") {
      throw_error(Code::InvalidArgument, "--recompute is none, selective or all, not '{}'", word);
    }
    options.fixed.recompute = word == "none" ? 0 : word == "selective" ? 1 : 2;
  }
  refuse_files(options);
  if (options.published) {
    std::fputs(published_text(*options.published).c_str(), stdout);
    return;
  }
  check_output("--html", options.html, {options.topology});
  check_output("--json", options.json, {options.topology});
  const LabScenario lab = scenario_of(options);
  if (options.largest) {
    std::fputs(largest_text(lab.scenario.cluster).c_str(), stdout);
    return;
  }
  const planner::Outcome outcome = planner::search(lab.scenario, options.fixed);
  if (!options.html.empty()) write_file("--html", options.html, lab_page(lab));
  if (!options.json.empty()) write_file("--json", options.json, lab_json(lab, outcome).dump(1) + "\n");
  const bool output_taken = options.json == kStandardOutput || options.html == kStandardOutput;
  if (!output_taken) std::fputs(lab_table(lab, outcome, options.all).c_str(), stdout);
  if (outcome.best.empty()) {
    std::fflush(stdout);
    throw Error(Code::OutOfMemory, shortage(lab, options.fixed, *outcome.smallest));
  }
}

}  // namespace

void add_lab(CLI::App& app) {
  CLI::App* command = app.add_subcommand("lab", "plans a training job: memory, communication, time, the best layout");
  const auto options = std::make_shared<LabOptions>();
  options->add_to(*command);
  command->footer(
      "Examples:\n  tutti lab --model 7b --gpus 64\n  tutti lab --model 70b --gpus 128 --gpu h100 --zero 3\n"
      "  tutti lab --layers 48 --hidden 8192 --gpus 256 --memory 40GB --json plan.json\n"
      "  tutti lab -m 405b -n 16384 --tp 8 --pp 16 --tokens 15.6t --price 2\n  tutti lab --published all\n"
      "  tutti lab --model 13b --gpus 64 --html lab.html\n");
  command->callback([options] {
    if (!options->model && !options->parameters && !options->layers && !options->hidden) options->model = "7b";
    plan_training(*options);
  });
}

}  // namespace tutti::tools
