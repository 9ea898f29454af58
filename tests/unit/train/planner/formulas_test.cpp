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
  EXPECT_EQ(evaluated("sqrt(9 + 16)"), 5);
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
  for (const Sheet* sheet :
       {&step_sheet(), &count_sheet(), &guess_sheet(), &ring_sheet(), &run_sheet(), &fit_sheet()}) {
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
  scenario.job = {.batch = 8};
  EXPECT_DOUBLE_EQ(Step(scenario, {.pp = 4, .chunks = 2})["bubble"], 3 / 19.0);
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

TEST(Planner, ActivationsOfALayerAsKorthikantiCountsThem) {
  // GPT-3, without FlashAttention: sbh(34 + 5as/h); /t with sequence parallelism; sbh(10 + (24 + 5as/h)/t) without.
  Scenario scenario;
  scenario.model = completed(named("175b"));
  scenario.cluster.gpus = 8;
  scenario.job = {.batch = 8, .flash_attention = false};
  const double sbh = 2048.0 * 12288, scores = 5 * 96 * 2048.0 * 2048;
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8})["A"], (34 * sbh + scores) / 8);
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8, .recompute = 1})["A"], 34 * sbh / 8);
  scenario.job.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8})["A"], 10 * sbh + (24 * sbh + scores) / 8);
  EXPECT_DOUBLE_EQ(Step(scenario, {.tp = 8, .recompute = 2})["A"], 2 * sbh);
}

TEST(Planner, ActivationsOfALayerOfToday) {
  // Llama 2 70B: FlashAttention, SwiGLU of 3.5·h, 8 of 64 key-value heads, no dropout. Of an element of sbh =
  // 33,554,432: 8 outside, 4 queries and output, 0.5 keys and values, 2·3·3.5 = 21 MLP: 33.5, and 4 bytes for each
  // head and token.
  Scenario scenario;
  scenario.model = completed(named("70b"));
  scenario.cluster.gpus = 8;
  scenario.job = {.batch = 8};
  EXPECT_EQ(Step(scenario, {.dp = 8})["A"], 1124073472.0 + 1048576);
  EXPECT_EQ(Step(scenario, {.tp = 8})["A"], (1124073472.0 + 1048576) / 8);
  // Selective recomputation: without the norms' outputs (2 + 2) and that of the MLP's activation (2·3.5).
  EXPECT_EQ(Step(scenario, {.dp = 8, .recompute = 1})["A"], 1124073472.0 + 1048576 - 11 * 33554432.0);
  // Dropout: two masks of a byte. Without FlashAttention: softmax, mask and output of the scores, 5·64·4096².
  scenario.model.dropout = true;
  EXPECT_EQ(Step(scenario, {.dp = 8})["A"], 1124073472.0 + 1048576 + 2 * 33554432.0);
  scenario.job.flash_attention = false;
  EXPECT_EQ(Step(scenario, {.dp = 8})["A"], 1124073472.0 + 2 * 33554432.0 + 5368709120.0);
}

TEST(Planner, GradientsInF32) {
  Scenario scenario;
  scenario.model = completed(named("7b"));
  scenario.cluster.gpus = 8;
  scenario.job = {.batch = 8, .gradient_bytes = 4};
  EXPECT_EQ(Step(scenario, {.dp = 8})["states"], 18 * 7e9);
  EXPECT_EQ(Step(scenario, {.dp = 8})["sent_dp"], 4 * 2 * 7e9 * 7 / 8);             // an all-reduce of 4 bytes
  EXPECT_EQ(Step(scenario, {.dp = 8, .zero = 1})["sent_dp"], 3 * 2 * 7e9 * 7 / 8);  // 4 bytes reduced, 2 gathered
}

TEST(Planner, UnevenStages) {
  // BLOOM, 70 layers over 12 stages: the fullest has 6 of 5.83, the first 5.
  Scenario scenario;
  scenario.model = completed({.parameters = 176e9, .layers = 70, .hidden = 14336, .heads = 112});
  scenario.cluster.gpus = 12;
  scenario.job = {.batch = 24};
  const Step step(scenario, {.pp = 12});
  EXPECT_EQ(step["l"], 6);
  EXPECT_EQ(step["l_first"], 5);
  EXPECT_DOUBLE_EQ(step["uneven"], 72.0 / 70);
  EXPECT_DOUBLE_EQ(step["Ψr"], 176e9 * 6 / 70);
  EXPECT_DOUBLE_EQ(step["A_first"], 12 * 5 * step["A"] + 12 * step["x"]);
  EXPECT_DOUBLE_EQ(step["A_mid"], 11 * 6 * step["A"]);
}

TEST(Planner, MatrixProductsBySize) {
  // 7B, a micro-batch of a sequence: 2·4096·4096·11008 = 369 GFLOP on a GPU, 46 of 8, which 64 would make 5.8.
  EXPECT_EQ(Step("7b", 8, {.dp = 8})["η_s"], 1);
  EXPECT_EQ(Step("7b", 8, {.tp = 8})["η_s"], 0.95);
  EXPECT_EQ(Step("7b", 64, {.tp = 64})["η_s"], 0.63);
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8})["mat"], 369367187456.0);
}

TEST(Planner, TimeOfAttention) {
  // FlashAttention skips half of 12·L·h·s FLOP a token and computes forward twice: 7·32·4096·4096 a token, at half the
  // peak; 1,024 sequences of 4,096 tokens are 1.576e16 FLOP.
  const double flop = 1024.0 * 4096 * 7 * 32 * 4096 * 4096;
  EXPECT_DOUBLE_EQ(Step("7b", 8, {.dp = 8})["T_attn"], flop / (8 * 989e12 * 0.5 * kSustained));
}

TEST(Planner, LatentAttentionExpertsAndDualPipe) {
  Scenario scenario;
  scenario.model = completed(named("deepseek-v3"));
  scenario.cluster.gpus = 2048;
  scenario.job = {.batch = 15360, .schedule = Schedule::DualPipe};
  const Step step(scenario, {.dp = 2, .pp = 16, .ep = 64, .zero = 1});
  EXPECT_DOUBLE_EQ(step["Ψa"], 17.1e9 + 653.9e9 / 32);  // 37.5 · 10⁹ of 671 · 10⁹
  EXPECT_EQ(step["m"], 120);
  EXPECT_DOUBLE_EQ(step["bubble"], 14.0 / (360 + 14));
  EXPECT_EQ(step["q"], 17);
  EXPECT_DOUBLE_EQ(step["Ψx"], 2 * 653.9e9 / (16 * 64) * (64.0 / 61));  // two stages' parameters
  EXPECT_EQ(step["S_ep"], 2 * 4096.0 * 7168 * 4);                       // to four hosts at most
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
  scenario.job = {.batch = 32};
  EXPECT_EQ(Step(scenario, {.pp = 4, .recompute = 1, .chunks = 2})["q"],
            4 + 3 / 2.0);  // Korthikanti 2022, §4.2.3: L(1 + (p−1)/(pv))
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
  // A shape alone has plain MLPs: 12·96·12288² + 2·50257·12288 and norms are GPT-3's 175 · 10⁹; gated ones would be
  // 233.
  Model shape{.layers = 96, .hidden = 12288, .vocabulary = 50257};
  EXPECT_EQ(completed(shape).parameters, 173946175488.0 + 1235116032.0 + 193.0 * 12288);
  shape.mlp_matrices = 3;
  EXPECT_NEAR(completed(shape).parameters, 233e9, 0.5e9);
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
