// A whole run: tokens, days, money, failures and checkpoints. And the largest model whose states fit.
#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

using enum Part;

// clang-format off
constexpr Input kRunInputs[] = {
    {"Ψa", "", "parameters that a token uses"}, {"C_0", "FLOP", "arithmetic of a step"}, {"B", "", "sequences of a step"},
    {"s", "", "tokens of a sequence"}, {"T_step", "s", "step"}, {"G", "", "GPUs"}, {"D", "token", "tokens of the run"},
    {"price", "$", "an hour of a GPU"}, {"mtbf", "s", "between failures of one GPU"}, {"δ", "s", "to write a checkpoint"},
    {"R", "s", "to start again"},
};
constexpr const char* kDaly = "Daly 2006";
constexpr Row kRunRows[] = {
    {Time, "D_best", "", "20·Ψa", "token", "tokens, compute-optimal", "Hoffmann 2022, table 3"},
    {Time, "steps", "", "D/(B·s)", "", "steps", ""},
    {Time, "C_run", "", "C_0·steps", "FLOP", "arithmetic of the run", ""},
    {Time, "mtbf_G", "", "mtbf/G", "s", "between failures", kDaly},
    {Time, "τ_1", "", "sqrt(2·δ·mtbf_G)", "s", "between checkpoints, first order", "Young 1974"},
    {Time, "τ", "δ<2·mtbf_G", "τ_1·(1 + sqrt(δ/(2·mtbf_G))/3 + δ/(2·mtbf_G)/9) − δ", "s", "between checkpoints, best", kDaly},
    {Time, "τ", "", "mtbf_G", "s", "between checkpoints, best", kDaly},
    {Time, "lost", "", "min(0.99, δ/(τ + δ) + (τ/2 + δ + R)/mtbf_G)", "share", "for checkpoints and failures", kDaly},
    {Time, "T_run", "", "steps·T_step/(1 − lost)", "s", "the run", ""},
    {Time, "days", "", "T_run/86400", "d", "days", ""},
    {Time, "failures", "", "T_run/mtbf_G", "", "failures", ""},
    {Time, "gpu_hours", "", "G·T_run/3600", "h", "hours of a GPU", ""},
    {Time, "cost", "", "gpu_hours·price", "$", "cost", ""},
};

constexpr Input kFitInputs[] = {{"M", "B", "memory of a GPU"}, {"N", "", "ranks"}};
constexpr const char* kZero = "Rajbhandari 2020, §5";
constexpr Row kFitRows[] = {
    {Memory, "Ψ_ddp", "", "M/16", "", "data parallel", kZero},
    {Memory, "Ψ_zero1", "", "M/(4 + 12/N)", "", "ZeRO-1", kZero},
    {Memory, "Ψ_zero2", "", "M/(2 + 14/N)", "", "ZeRO-2", kZero},
    {Memory, "Ψ_zero3", "", "M·N/16", "", "ZeRO-3", kZero},
};
// clang-format on

}  // namespace

const Sheet& run_sheet() {
  static const Sheet kSheet(kRunInputs, kRunRows);
  return kSheet;
}

const Sheet& fit_sheet() {
  static const Sheet kSheet(kFitInputs, kFitRows);
  return kSheet;
}

std::vector<double> values_of_run(const Run& run, const Candidate& step) {
  const Sheet& sheet = run_sheet();
  std::vector<double> values = sheet.blank();
  for (const char* name : {"Ψa", "C_0", "B", "s", "T_step", "G"}) values[sheet.slot(name)] = step.at(name);
  values[sheet.slot("D")] = run.tokens > 0 ? run.tokens : 20 * step.at("Ψa");
  values[sheet.slot("price")] = run.price;
  values[sheet.slot("mtbf")] = run.mtbf;
  values[sheet.slot("δ")] = run.checkpoint;
  values[sheet.slot("R")] = run.restart;
  sheet.evaluate(values, Time, Time);
  return values;
}

std::vector<double> values_of_fit(double memory, double ranks) {
  const Sheet& sheet = fit_sheet();
  std::vector<double> values = sheet.blank();
  values[sheet.slot("M")] = memory;
  values[sheet.slot("N")] = ranks;
  sheet.evaluate(values, Memory, Memory);
  return values;
}

}  // namespace tutti::train::planner
