#include "train/planner/scenario.hpp"

#include <algorithm>

#include "train/planner/formulas.hpp"

namespace tutti::train::planner {
namespace {

// clang-format off
// parameters, in experts, layers, hidden, heads, key-value heads, MLP, vocabulary, sequence, experts, top-k, matrices,
// attention, keys, shared experts, fanout, dropout
constexpr NamedModel kModels[] = {
    {"7b", "7B (Llama 2)", {7e9, 0, 32, 4096, 32, 32, 11008, 32000, 4096, 1, 1, 3}},
    {"8b", "8B (Llama 3)", {8e9, 0, 32, 4096, 32, 8, 14336, 128256, 8192, 1, 1, 3}},
    {"13b", "13B (Llama 2)", {13e9, 0, 40, 5120, 40, 40, 13824, 32000, 4096, 1, 1, 3}},
    {"70b", "70B (Llama 2)", {70e9, 0, 80, 8192, 64, 8, 28672, 32000, 4096, 1, 1, 3}},
    {"175b", "175B (GPT-3)", {175e9, 0, 96, 12288, 96, 96, 49152, 50257, 2048, 1, 1, 2, 0, 0, 0, 0, true}},
    {"405b", "405B (Llama 3.1)", {405e9, 0, 126, 16384, 128, 8, 53248, 128256, 8192, 1, 1, 3}},
    {"1t", "1T (Megatron-LM)", {1e12, 0, 128, 25600, 160, 160, 102400, 51200, 2048, 1, 1, 2, 0, 0, 0, 0, true}},
    {"8x7b", "8 experts, 47B (Mixtral)", {0, 0, 32, 4096, 32, 8, 14336, 32000, 4096, 8, 2, 3}},
    // Multi-head latent attention: queries and keys of 128 · 192, values of 128 · 128; of keys and values a layer
    // keeps 512 + 64. 58 of the 61 layers have experts; the other three have one MLP of nine experts' width, which is
    // what a token uses.
    {"deepseek-v3", "671B, 37B a token (DeepSeek-V3)",
     {671e9, 653.9e9, 61, 7168, 128, 128, 2048, 129280, 4096, 256, 8, 3, 20480, 576, 1, 4}},
};

// GPUs, GPUs of a host, memory as the driver tells (an "80 GB" H100 has 81,559 MiB), usable, FLOP/s, share of the best
// matrix product (Bekman 2026), memory bandwidth, sustained, latencies (NCCL's tuning.cc), bandwidths
constexpr NamedCluster kClusters[] = {
    {"v100", "V100 32 GB, NVLink 2, 100 Gb/s", {8, 8, 34.1e9, 0.9, 125e12, 0.869, 900e9, kSustained, 3.4e-6, 14e-6, 150e9, 12.5e9}},
    {"a100", "A100 80 GB, NVLink 3, 200 Gb/s", {8, 8, 85.9e9, 0.9, 312e12, 0.869, 2039e9, kSustained, 3.4e-6, 14e-6, 300e9, 25e9}},
    {"h100", "H100 80 GB, NVLink 4, 400 Gb/s", {8, 8, 85.5e9, 0.9, 989e12, 0.803, 3350e9, kSustained, 3.4e-6, 14e-6, 450e9, 50e9}},
    {"h800", "H800 80 GB, NVLink at 200 GB/s, 400 Gb/s", {8, 8, 85.5e9, 0.9, 989e12, 0.803, 3350e9, kSustained, 3.4e-6, 14e-6, 200e9, 50e9}},
    {"h200", "H200 141 GB, NVLink 4, 400 Gb/s", {8, 8, 150.8e9, 0.9, 989e12, 0.803, 4800e9, kSustained, 3.4e-6, 14e-6, 450e9, 50e9}},
    {"b200", "B200 180 GB, NVLink 5, 400 Gb/s", {8, 8, 192.3e9, 0.9, 2250e12, 0.776, 8000e9, kSustained, 3.4e-6, 14e-6, 900e9, 50e9}},
    {"l40s", "L40S 48 GB, PCIe 4, 100 Gb/s", {8, 8, 48.3e9, 0.9, 362e12, 0.869, 864e9, kSustained, 5.7e-6, 14e-6, 32e9, 12.5e9}},
};
// clang-format on

void set(const Sheet& sheet, std::vector<double>& values, const char* name, double value) {
  values[sheet.slot(name)] = value;
}

std::vector<double> counted(const Model& model) {
  const Sheet& sheet = count_sheet();
  std::vector<double> values = sheet.blank();
  const std::pair<const char*, int64_t> given[] = {
      {"L", model.layers},     {"h", model.hidden},  {"a", model.heads},
      {"g", model.kv_heads},   {"f", model.ffn},     {"w", model.mlp_matrices},
      {"V", model.vocabulary}, {"E", model.experts}, {"da", model.attention}};
  for (const auto& [name, value] : given) set(sheet, values, name, static_cast<double>(value));
  sheet.evaluate(values, Part::Layout, Part::Layout);
  return values;
}

Model with_guessed_shape(Model model) {
  const Sheet& sheet = guess_sheet();
  std::vector<double> values = sheet.blank();
  set(sheet, values, "Ψ", model.parameters);
  sheet.evaluate(values, Part::Layout, Part::Layout);
  const auto of = [&](const char* name) { return static_cast<int64_t>(values[sheet.slot(name)]); };
  model.layers = of("L");
  model.hidden = of("h");
  model.heads = of("a");
  model.kv_heads = of("g");
  model.ffn = of("f");
  return model;
}

}  // namespace

std::span<const NamedModel> named_models() { return kModels; }
std::span<const NamedCluster> named_clusters() { return kClusters; }

double counted_parameters(const Model& model) { return counted(model)[count_sheet().slot("Ψ")]; }

Model completed(Model model) {
  const bool shaped = model.layers > 0 || model.hidden > 0;
  if (!shaped && model.experts > 1) refuse("experts need a shape: give layers and hidden size too");
  if (!shaped && model.parameters <= 0) refuse("no model: give its name, its parameters, or layers and hidden size");
  if (!shaped) model = with_guessed_shape(model);
  if (model.layers <= 0 || model.hidden <= 0) refuse("a shape needs both layers and hidden size");
  if (model.heads == 0) model.heads = std::max<int64_t>(1, model.hidden / 128);
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.ffn == 0) model.ffn = 4 * model.hidden;
  if (model.attention == 0 && model.hidden % model.heads != 0)
    refuse("{} heads do not divide the hidden size {}", model.heads, model.hidden);
  if (model.heads % model.kv_heads != 0)
    refuse("{} key-value heads do not divide {} heads", model.kv_heads, model.heads);
  if (model.top_k > model.experts) refuse("a token cannot use {} of {} experts", model.top_k, model.experts);
  if (model.attention == 0) model.attention = model.hidden;
  if (model.keys == 0) model.keys = 2 * model.attention / model.heads * model.kv_heads;
  if (model.fanout == 0 || model.fanout > model.top_k) model.fanout = model.top_k;
  const std::vector<double> count = counted(model);
  const double all = count[count_sheet().slot("Ψ")];
  if (model.parameters <= 0) model.parameters = all;
  if (model.in_experts <= 0) model.in_experts = count[count_sheet().slot("Ψe")] * (model.parameters / all);
  return model;
}

int64_t usual_batch(const Model& model, const Cluster& cluster) {
  int64_t odd = cluster.gpus;
  while (odd % 2 == 0) odd /= 2;
  int64_t batch = odd;
  const int64_t tokens = std::max(int64_t{4} << 20, cluster.gpus * 1024);
  while (batch * 2 * model.sequence <= tokens) batch *= 2;
  return batch;
}

void check(const Scenario& scenario) {
  constexpr double kMax = 1e15;
  const auto in_range = [](const char* what, double value, double least, double most) {
    if (!(value >= least && value <= most))
      refuse("{} must be between {:g} and {:g}, not {:g}", what, least, most, value);
  };
  const Model& m = scenario.model;
  const Cluster& c = scenario.cluster;
  in_range("the number of parameters", m.parameters, 1e6, kMax);
  for (const auto& [what, value] :
       {std::pair{"the number of layers", m.layers}, std::pair{"the hidden size", m.hidden},
        std::pair{"the number of heads", m.heads}, std::pair{"the vocabulary", m.vocabulary},
        std::pair{"the length of a sequence", m.sequence}, std::pair{"the number of experts", m.experts},
        std::pair{"top-k", m.top_k}}) {
    in_range(what, static_cast<double>(value), 1, 1e8);
  }
  in_range("the number of GPUs", static_cast<double>(c.gpus), 1, 1 << 20);
  in_range("the number of GPUs of a host", static_cast<double>(c.gpus_per_host), 1, 1 << 20);
  in_range("a GPU's memory in bytes", c.memory, 1e6, kMax);
  in_range("the usable share of the memory", c.usable, 0.01, 1);
  in_range("a GPU's FLOP/s", c.flops, 1e9, 1e18);
  in_range("the share of the peak of the best matrix product", c.matmul, 0.01, 1);
  in_range("the bandwidth of a GPU's memory", c.memory_bandwidth, 1e6, kMax);
  in_range("the share of the kernels' rates", c.efficiency, 0.001, 1);
  in_range("the share of hidden communication that shows", c.contention, 0, 1);
  in_range("the latency inside a host", c.alpha_in, 0, 1);
  in_range("the latency between hosts", c.alpha_out, 0, 1);
  in_range("the bandwidth inside a host", c.bandwidth_in, 1e6, kMax);
  in_range("the bandwidth between hosts", c.bandwidth_out, 1e6, kMax);
  in_range("the batch", static_cast<double>(scenario.job.batch), 1, 1 << 24);
  in_range("the number of chunks", static_cast<double>(scenario.job.chunks), 0, 1024);
}

std::vector<double> values_of(const Scenario& scenario) {
  const Sheet& sheet = step_sheet();
  std::vector<double> values = sheet.blank();
  const Model& m = scenario.model;
  const Cluster& c = scenario.cluster;
  const Job& job = scenario.job;
  const auto put = [&](const char* name, auto value) { set(sheet, values, name, static_cast<double>(value)); };
  put("Ψ", m.parameters), put("Ψe", m.in_experts), put("L", m.layers), put("h", m.hidden), put("a", m.heads);
  put("da", m.attention), put("kv", m.keys), put("f", m.ffn), put("w", m.mlp_matrices), put("drop", m.dropout);
  put("s", m.sequence), put("V", m.vocabulary), put("E", m.experts), put("k", m.top_k);
  put("ks", m.shared_experts), put("kn", m.fanout);
  put("G", c.gpus), put("H", c.gpus_per_host), put("M", c.memory), put("u", c.usable), put("F", c.flops);
  put("η_m", c.matmul), put("η", c.efficiency), put("p8", job.matmul_rate), put("W_mem", c.memory_bandwidth);
  put("α_in", c.alpha_in), put("α_out", c.alpha_out);
  put("W_in", c.bandwidth_in), put("W_out", c.bandwidth_out), put("B", job.batch), put("ω", c.contention);
  put("sched", job.schedule), put("sp", job.sequence_parallel), put("fa", job.flash_attention);
  put("gb", job.gradient_bytes);
  return values;
}

void set_layout(std::vector<double>& values, const Layout& layout) {
  static const size_t kSlots[] = {step_sheet().slot("dp"), step_sheet().slot("pp"), step_sheet().slot("cp"),
                                  step_sheet().slot("ep"), step_sheet().slot("tp"), step_sheet().slot("zero"),
                                  step_sheet().slot("rc"), step_sheet().slot("b"),  step_sheet().slot("v")};
  const int64_t given[] = {layout.dp,   layout.pp,        layout.cp,          layout.ep,    layout.tp,
                           layout.zero, layout.recompute, layout.micro_batch, layout.chunks};
  for (size_t i = 0; i < std::size(kSlots); ++i) values[kSlots[i]] = static_cast<double>(given[i]);
}

}  // namespace tutti::train::planner
