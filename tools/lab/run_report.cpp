// What `tutti lab` says of whole runs: of the one asked for, and of published ones.
#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "base/spelling.hpp"
#include "tools/lab/report.hpp"
#include "train/planner/published.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;
using planner::PublishedRun;

/// Of the run's rows, the ones that a table shows; the cost only with a price.
bool shown(const planner::Figure& figure, const planner::Run& run) {
  const std::string_view name = figure.row->name;
  return name != "τ_1" && name != "T_run" && (name != "cost" || run.price > 0);
}

std::string layout_of(const planner::Candidate& of) {
  const planner::Layout& l = of.layout;
  return fmt::format("tp {} pp {} dp {}{} ZeRO-{} v {} b {}", l.tp, l.pp, l.dp,
                     l.ep > 1 ? fmt::format(" ep {}", l.ep) : "", l.zero, l.chunks, l.micro_batch);
}

constexpr const char* kPublishedHead =
    R"(# The planner beside published runs

Written by `tutti lab --published all > bench/results/planner.md`; `tests/cli/lab_test.py` compares. Each row is a run
whose speed was published, and what the planner predicts for the layout that was published with it; what the source
does not say is the fastest by the planner, or the last column says what was assumed. HFU counts recomputed arithmetic,
as these sources do; MFU does not. The fourth column says in which text the row's figures were seen.

Rates of kernels are measured figures of others. One figure, η, was chosen to match these runs, the same for all: a
step sustains 72 % of what kernels reach alone. (Only those of Korthikanti 2022 took no part.) η* is the value with
which a run's prediction would be exact. See docs/lab.md.

| run | source | layout | figures seen in | counted | published | predicted | error | η* | not published, assumed |
|---|---|---|---|---|---|---|---|---|---|
)";

constexpr const char* kHeldOutHead = R"(
## Runs that took no part in the choice

A figure that was chosen on runs says little by matching them. So each paper's runs are predicted once more, with the
median η* of all other papers' runs:

| paper | runs | η of the others | median error | worst error |
|---|---|---|---|---|
)";

constexpr const char* kPublishedEnd = R"(
## What differs

MT-NLG trained the model of Megatron-LM's 529.6B row, on the same kind of machine, at 77 % of that row's rate; of the
difference the model explains what 1F1B without interleaving costs, and not the rest. DeepSeek-V3's multi-token
prediction and uneven experts are not in the model. PaLM's pods each hold all weights, where the model shards them over
both. GPT-3's rate is one that OpenAI told others.

Left out: Llama 3's third row, of 131,072 tokens. More than half of its arithmetic is attention, and the paper does not
say whether it counts what the causal mask hides.
)";

std::vector<double> magnitudes(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return errors;
}

std::string summary_of(const std::vector<double>& errors) {
  return fmt::format("edian error {:.1f} %, worst {:.1f} %", planner::median(errors) * 100,
                     *std::max_element(errors.begin(), errors.end()) * 100);
}

std::string table_of_held_out() {
  std::string text = kHeldOutHead;
  std::vector<double> all;
  for (const planner::HeldOut& held : planner::hold_out()) {
    const std::vector<double> errors = magnitudes(held.errors);
    all.insert(all.end(), errors.begin(), errors.end());
    const double worst = *std::max_element(held.errors.begin(), held.errors.end(),
                                           [](double a, double b) { return std::abs(a) < std::abs(b); });
    text += fmt::format("| {} | {} | {:.3f} | {:.1f} % | {:+.1f} % |\n", held.paper, errors.size(), held.efficiency,
                        planner::median(errors) * 100, worst * 100);
  }
  return text + fmt::format("\nOf all {} runs, each held out: m{}.\n", all.size(), summary_of(all));
}

std::string table_of_published() {
  std::string text = kPublishedHead;
  std::vector<double> errors;
  std::string misses;
  constexpr double kMiss = 0.12;
  for (const PublishedRun& run : planner::published_runs()) {
    const planner::Prediction found = planner::predict(run);
    errors.push_back(std::abs(found.error));
    text += fmt::format("| {} | {} | {} | {} | {} | {:.1f} % | {:.1f} % | {:+.1f} % | {:.2f} | {}{} |\n", run.label,
                        run.source, layout_of(found.candidate), run.seen, run.with_recomputation ? "HFU" : "MFU",
                        run.published * 100, found.share * 100, found.error * 100, planner::matching_efficiency(run),
                        run.assumed, found.fits ? "" : "; by the planner it does not fit");
    if (std::abs(found.error) > kMiss)
      misses += fmt::format("{}{} {:+.0f} %", misses.empty() ? "" : ", ", run.label, found.error * 100);
  }
  text += fmt::format("\nM{}. More than 12 %: {}.\n", summary_of(errors), misses.empty() ? "none" : misses);
  return text + table_of_held_out() + kPublishedEnd;
}

}  // namespace

std::string published_text(const std::string& name) {
  if (name == "all") return table_of_published();
  std::vector<std::string> names;
  for (const PublishedRun& run : planner::published_runs()) {
    names.emplace_back(run.name);
    if (name != run.name) continue;
    const planner::Prediction found = planner::predict(run);
    std::string text = fmt::format("{} ({})\n  {}, {} a step\n", run.label, run.source, layout_of(found.candidate),
                                   value_text(found.candidate.at("T_step"), "s"));
    if (*run.assumed != '\0') text += fmt::format("  not published, assumed: {}\n", run.assumed);
    return text + fmt::format("  {}: published {:.1f} %, predicted {:.1f} % ({:+.1f} %)\n",
                              run.with_recomputation ? "HFU" : "MFU", run.published * 100, found.share * 100,
                              found.error * 100);
  }
  throw_error(Code::InvalidArgument, "--published knows no '{}'{}; it knows all, {}", name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

std::string largest_text(const planner::Cluster& cluster) {
  const std::vector<double> values = planner::values_of_fit(cluster.memory, static_cast<double>(cluster.gpus));
  std::string text =
      fmt::format("The largest model whose states (16 bytes a parameter) fill {} on {} GPUs; activations come on top\n",
                  value_text(cluster.memory, "B"), cluster.gpus);
  for (const planner::Figure& figure : planner::fit_sheet().figures(values)) text += figure_line(figure);
  return text;
}

std::string run_text(const LabScenario& lab, const planner::Candidate& best) {
  const std::vector<double> values = planner::values_of_run(lab.run, best);
  std::string text = fmt::format("\nThe run: {} tokens{}\n", value_text(values[planner::run_sheet().slot("D")], ""),
                                 lab.run.tokens > 0 ? "" : ", the compute-optimal number");
  for (const planner::Figure& figure : planner::run_sheet().figures(values)) {
    if (shown(figure, lab.run)) text += figure_line(figure);
  }
  const auto value = [&](const char* name) { return values[planner::run_sheet().slot(name)]; };
  if (value("lost") >= planner::kMostLost) {
    text += fmt::format(
        "  This run would not end: a failure every {} leaves no time between checkpoints of {} and restarts of {}.\n"
        "  The figures above count 1 % of the time as work. Fewer GPUs, --mtbf, --checkpoint or --restart change it.\n",
        value_text(value("mtbf_G"), "s"), value_text(value("δ"), "s"), value_text(value("R"), "s"));
  }
  return text;
}

nlohmann::ordered_json run_json(const LabScenario& lab, const planner::Candidate& best) {
  const std::vector<double> values = planner::values_of_run(lab.run, best);
  nlohmann::ordered_json figures = nlohmann::ordered_json::array(), symbols;
  for (const planner::Figure& figure : planner::run_sheet().figures(values)) {
    const planner::Row& row = *figure.row;
    figures.push_back({{"name", row.name},
                       {"label", row.label},
                       {"value", figure.value},
                       {"unit", row.unit},
                       {"formula", figure.formula},
                       {"source", row.source}});
    symbols[row.name] = figure.value;
  }
  for (const planner::Input& input : planner::run_sheet().inputs()) {
    symbols[input.name] = values[planner::run_sheet().slot(input.name)];
  }
  return {{"figures", figures}, {"symbols", symbols}};
}

}  // namespace tutti::tools
