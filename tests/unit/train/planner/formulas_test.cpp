// The planner's formulas give the published values.
#include "train/planner/formulas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "train/planner/scenario.hpp"
#include "tutti/error.hpp"

namespace tutti::train::planner {
namespace {

double evaluated(const std::string& text, const std::map<std::string, double>& names = {}) {
  std::vector<double> values;
  for (const auto& [name, value] : names) values.push_back(value);
  const Expression expression(text, [&](std::string_view name) {
    return static_cast<size_t>(std::distance(names.begin(), names.find(std::string(name))));
  });
  return expression(values);
}

const Model& named(const std::string& name) {
  for (const NamedModel& model : named_models()) {
    if (model.name == name) return model.model;
  }
  throw Error(Code::InvalidArgument, name);
}

/// All values of a step.
class Step {
 public:
  Step(const std::string& model, int64_t gpus, const Layout& layout, int64_t batch = 1024) {
    Scenario scenario;
    scenario.model = completed(named(model));
    scenario.cluster.gpus = gpus;
    scenario.job.batch = batch;
    *this = Step(scenario, layout);
  }
  Step(const Scenario& scenario, const Layout& layout) : values_(values_of(scenario)) {
    set_layout(values_, layout);
    step_sheet().evaluate(values_, Part::Layout, Part::Time);
  }
  double operator[](const char* name) const { return values_[step_sheet().slot(name)]; }

 private:
  std::vector<double> values_;
};

TEST(Expression, KnowsPrecedence) {
  EXPECT_EQ(evaluated("2 + 3·4 − 6/3/2"), 13);
  EXPECT_EQ(evaluated("(2 + 3)·4"), 20);
  EXPECT_EQ(evaluated("max(0, 1 − 2) + min(3, 4) + floor(7/2) + ceil(7/2) + cbrt(27)"), 13);
  EXPECT_EQ(evaluated("2·Ψr/(tp·Ψ_2)", {{"tp", 4}, {"Ψ_2", 2}, {"Ψr", 16}}), 4);
}

TEST(Expression, Compares) {
  EXPECT_EQ(evaluated("zero<3 and k=1", {{"k", 1}, {"zero", 2}}), 1);
  EXPECT_EQ(evaluated("zero<3 and k=1", {{"k", 2}, {"zero", 2}}), 0);
  EXPECT_EQ(evaluated("2≥2 and 2≤2 and 3>2"), 1);
}

TEST(Expression, SaysWhatItExpects) {
  for (const char* wrong : {"", "2 +", "(2", "2 3", "max(1)", "sin(2)", "2 * 3"}) {
    EXPECT_THROW(evaluated(wrong), Error) << wrong;
  }
  try {
    evaluated("1 + (2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "formula '1 + (2': ')' was expected at byte 7");
  }
  std::string deep = "1";
  for (int i = 0; i < 40; ++i) deep = "1+(" + deep + ")";
  EXPECT_THROW(evaluated(deep), Error);
}

TEST(Sheet, TakesTheFirstRowThatApplies) {
  static constexpr Input kInputs[] = {{"a", "", ""}};
  static constexpr Row kRows[] = {{Part::Layout, "b", "a<2", "1", "", "", ""},
                                  {Part::Layout, "b", "", "2", "", "", ""},
                                  {Part::Time, "c", "", "b + a", "", "", ""}};
  const Sheet sheet(kInputs, kRows);
  for (const double a : {1.0, 5.0}) {
    std::vector<double> values = sheet.blank();
    values[sheet.slot("a")] = a;
    sheet.evaluate(values, Part::Layout, Part::Time);
    EXPECT_EQ(values[sheet.slot("c")], a < 2 ? 2 : 7);
    ASSERT_EQ(sheet.figures(values).size(), 2u);
    EXPECT_STREQ(sheet.figures(values)[0].row->formula, a < 2 ? "1" : "2");
  }
  EXPECT_THROW(sheet.slot("d"), Error);
}

TEST(Sheet, AGivenValueReplacesItsRow) {
  Scenario scenario;
  scenario.model = completed(named("7b"));
  scenario.cluster.gpus = 16;
  scenario.job.batch = 64;
  std::vector<double> values = values_of(scenario);
  set_layout(values, {.dp = 16, .zero = 3});
  values[step_sheet().slot("t_dp")] = 100;  // a measured cost, say
  step_sheet().evaluate(values, Part::Layout, Part::Time);
  EXPECT_EQ(values[step_sheet().slot("T_dp")], 3 * 4 * 100);
  for (const Figure& figure : step_sheet().figures(values)) {
    EXPECT_EQ(std::string(figure.formula) == "given", std::string(figure.row->name) == "t_dp") << figure.row->name;
  }
}

TEST(Sheet, EveryRowHasAMeaningAndAKnownSource) {
  std::set<std::string> known;
  for (const Source& source : sources()) known.insert(source.key);
  for (const Sheet* sheet : {&step_sheet(), &count_sheet(), &guess_sheet(), &ring_sheet()}) {
    for (const Row& row : sheet->rows()) {
      EXPECT_STRNE(row.label, "") << row.name;
      std::string source = row.source;
      if (source.empty() || source == "model of this planner") continue;
      source = source.substr(0, source.find_first_of(",;"));
      EXPECT_TRUE(known.contains(source)) << row.name << ": " << source;
    }
  }
}

// ---- reference values of the training layer's issue: mixed precision, Adam

TEST(Planner, ModelStatesOfOneGpu) {
  EXPECT_DOUBLE_EQ(Step("7b", 1, {})["states"], 112e9);
  EXPECT_DOUBLE_EQ(Step("70b", 1, {})["states"], 1120e9);
}

TEST(Planner, ModelStatesWithZero) {
  EXPECT_DOUBLE_EQ(Step("7b", 64, {.dp = 64})["states"], 112e9);
  EXPECT_DOUBLE_EQ(Step("7b", 64, {.dp = 64, .zero = 1})["states"], 29.3125e9);
  EXPECT_DOUBLE_EQ(Step("7b", 64, {.dp = 64, .zero = 2})["states"], 15.53125e9);
  EXPECT_DOUBLE_EQ(Step("7b", 64, {.dp = 64, .zero = 3})["states"], 1.75e9);
  EXPECT_DOUBLE_EQ(Step("70b", 128, {.dp = 128, .zero = 3})["states"], 8.75e9);
  EXPECT_DOUBLE_EQ(Step("13b", 64, {.dp = 16, .pp = 4, .zero = 3})["states"], 3.25e9);
}

TEST(Planner, ZeroReachesItsFactorsOnlyInTheLimit) {
  const double whole = Step("7b", 1, {})["states"];
  EXPECT_NEAR(whole / Step("7b", 64, {.dp = 64, .zero = 1})["states"], 3.82, 0.005);
  EXPECT_NEAR(whole / Step("7b", 64, {.dp = 64, .zero = 2})["states"], 7.21, 0.005);
  EXPECT_NEAR(whole / Step("7b", 1 << 20, {.dp = 1 << 20, .zero = 1}, 1 << 20)["states"], 4, 1e-4);
  EXPECT_NEAR(whole / Step("7b", 1 << 20, {.dp = 1 << 20, .zero = 2}, 1 << 20)["states"], 8, 1e-4);
}

TEST(Planner, PipelineBubble) {
  for (const auto& [m, share] : {std::pair{1, 0.75}, {8, 3 / 11.0}, {12, 0.2}, {16, 3 / 19.0}}) {
    EXPECT_DOUBLE_EQ(Step("7b", 4, {.pp = 4}, m)["bubble"], share);
  }
  Scenario scenario;
  scenario.model = completed(named("7b"));
  scenario.cluster.gpus = 4;
  scenario.job = {.batch = 8, .schedule = Schedule::Interleaved, .chunks = 2};
  EXPECT_DOUBLE_EQ(Step(scenario, {.pp = 4})["bubble"], 3 / 19.0);
  scenario.job.schedule = Schedule::ZeroBubbleH1;
  EXPECT_DOUBLE_EQ(Step(scenario, {.pp = 4})["bubble"], 3 / 27.0);
}

TEST(Planner, RingAllReduce) {
  std::vector<double> values = ring_sheet().blank();
  values[ring_sheet().slot("n")] = 8;
  values[ring_sheet().slot("S")] = 4e9;
  ring_sheet().evaluate(values, Part::Layout, Part::Time);
  EXPECT_DOUBLE_EQ(values[ring_sheet().slot("ring_sent")], 7e9);
  EXPECT_EQ(values[ring_sheet().slot("steps")], 14);
}

TEST(Planner, BytesSentByDataParallelism) {
  const double whole = 24.5e9;  // 7B, 2-byte gradients, N = 8
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8}, 8)["sent_dp"], whole);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8, .zero = 1}, 8)["sent_dp"], whole);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8, .zero = 2}, 8)["sent_dp"], whole);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8, .zero = 3}, 8)["sent_dp"], 1.5 * whole);
}

// ---- published formulas

TEST(Planner, ActivationsOfALayer) {
  // Korthikanti 2022: sbh(34 + 5as/h); /t with sequence parallelism; sbh(10 + 24/t + …) without.
  const double sbh = 4096.0 * 4096, scores = 5 * 32 * 4096.0 * 4096;
  EXPECT_DOUBLE_EQ(Step("7b", 1, {})["A"], 34 * sbh + scores);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.tp = 8})["A"], (34 * sbh + scores) / 8);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.tp = 8, .recompute = 1})["A"], 34 * sbh / 8);
  Scenario scenario;
  scenario.model = completed(named("7b"));
  scenario.job = {.batch = 8, .sequence_parallel = false};
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8})["A"], 10 * sbh + 24 * sbh / 8 + scores / 8);
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8, .recompute = 2})["A"], 2 * sbh);
}

TEST(Planner, ActivationsInFlight) {
  const Layout four{.pp = 4, .recompute = 1};
  const Step one_f_one_b("7b", 4, four, 32);
  EXPECT_EQ(one_f_one_b["q"], 4);
  EXPECT_DOUBLE_EQ(one_f_one_b["A_first"], 4 * 8 * one_f_one_b["A"] + 4 * one_f_one_b["x"]);
  Scenario scenario;
  scenario.model = completed(named("7b"));
  scenario.cluster.gpus = 4;
  scenario.job = {.batch = 32, .schedule = Schedule::GPipe};
  EXPECT_EQ(Step(scenario, four)["q"], 32);
  scenario.job = {.batch = 32, .schedule = Schedule::Interleaved, .chunks = 2};
  EXPECT_EQ(Step(scenario, four)["q"], 4 + 3 / 2.0);  // Korthikanti 2022, §4.2.3: L(1 + (p−1)/(pv))
}

TEST(Planner, TensorParallelTraffic) {
  // 4 all-reduces of 2sbh bytes for each layer and micro-batch.
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.tp = 8}, 16)["sent_tp"], 16 * 32 * 4 * (2 * 7 / 8.0) * 2 * 4096.0 * 4096);
}

TEST(Planner, Arithmetic) {
  // Narayanan 2021, eq. 3 for GPT-3: 96Bslh²(1 + s/6h + V/16lh) with all activations recomputed.
  const double narayanan =
      96.0 * 1536 * 2048 * 96 * 12288.0 * 12288 * (1 + 2048 / (6 * 12288.0) + 51200 / (16 * 96 * 12288.0));
  EXPECT_NEAR(Step("175b", 1536, {.dp = 1536, .recompute = 2}, 1536)["C"] / narayanan, 1, 0.01);
}

TEST(Planner, LinksOfAGroup) {
  const Step across("7b", 64, {.dp = 8, .tp = 8});  // each data group has one GPU of each host
  EXPECT_EQ(across["k_N"], 1);
  EXPECT_DOUBLE_EQ(across["β_N"], 1 / 50e9);
  EXPECT_DOUBLE_EQ(across["β_tp"], 1 / 450e9);
  EXPECT_DOUBLE_EQ(across["λ_tp"], 7 * 3.4e-6);
  const Step flat("7b", 64, {.dp = 64});  // eight GPUs of a host, with eight network cards
  EXPECT_EQ(flat["k_N"], 8);
  EXPECT_DOUBLE_EQ(flat["β_N"], 1 / 400e9);
  EXPECT_DOUBLE_EQ(flat["λ_N"], 7 * 14e-6 + 56 * 3.4e-6);
}

// ---- shapes

TEST(Planner, CountsParameters) {
  EXPECT_EQ(counted_parameters(completed(named("7b"))), 6738415616);    // Llama 2's
  EXPECT_EQ(counted_parameters(completed(named("70b"))), 68976648192);  // Llama 2's
  EXPECT_NEAR(counted_parameters(completed(named("405b"))) / 405.85e9, 1, 1e-3);
  EXPECT_NEAR(completed(named("8x7b")).parameters / 46.7e9, 1, 1e-3);
}

TEST(Planner, GuessesAShape) {
  Model model;
  model.parameters = 175e9;
  const Model gpt3 = completed(model);
  EXPECT_EQ(gpt3.layers, 96);
  EXPECT_EQ(gpt3.hidden, 12288);
  EXPECT_EQ(gpt3.heads, 96);
  model.parameters = 7e9;
  EXPECT_EQ(completed(model).hidden, 4096);
  EXPECT_EQ(completed(model).parameters, 7e9);
}

TEST(Planner, RefusesShapesThatContradictThemselves) {
  EXPECT_THROW(completed({}), Error);
  EXPECT_THROW(completed({.layers = 4}), Error);
  EXPECT_THROW(completed({.layers = 4, .hidden = 1000, .heads = 3}), Error);
  EXPECT_THROW(completed({.layers = 4, .hidden = 1024, .heads = 8, .kv_heads = 3}), Error);
  EXPECT_THROW(completed({.layers = 4, .hidden = 1024, .experts = 4, .top_k = 5}), Error);
  EXPECT_THROW(completed({.parameters = 7e9, .experts = 4}), Error);
}

}  // namespace
}  // namespace tutti::train::planner
