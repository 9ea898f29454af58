#include "train/planner/published.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tutti::train::planner {
namespace {

constexpr const char* kMegatron = "Narayanan 2021, table 1";
constexpr const char* kSmith = "Smith 2022, §2.4";
constexpr const char* kLlama = "Grattafiori 2024, table 4";
constexpr const char* kKorthikanti = "Korthikanti 2022, tables 3 and 5";
constexpr const char* kPaper = "the paper";
constexpr const char* kCopies = "two copies of the table";

const Cluster& kind(const char* name) {
  for (const NamedCluster& cluster : named_clusters()) {
    if (std::string_view(cluster.name) == name) return cluster.cluster;
  }
  refuse("no GPU is called {}", name);
}

const Model& model(const char* name) {
  for (const NamedModel& known : named_models()) {
    if (std::string_view(known.name) == name) return known.model;
  }
  refuse("no model is called {}", name);
}

/// A run trained: so it had its GPU's whole memory.
Scenario of(const Model& model, const char* gpu, int64_t gpus, const Job& job) {
  Scenario scenario{completed(model), kind(gpu), job};
  scenario.cluster.gpus = gpus;
  scenario.cluster.usable = 1;
  return scenario;
}

/// As GPT-3: plain MLP of four times the hidden size, dropout.
Model gpt(double parameters, int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary = 51200) {
  Model model{.parameters = parameters, .layers = layers, .hidden = hidden, .heads = heads};
  model.vocabulary = vocabulary;
  model.sequence = 2048;
  model.dropout = true;
  return model;
}

/// Before FlashAttention and sequence parallelism.
Job early(int64_t batch, Schedule schedule = Schedule::Interleaved) {
  return {.batch = batch, .schedule = schedule, .sequence_parallel = false, .flash_attention = false};
}

PublishedRun megatron(const char* name, const char* label, const Model& model, int64_t gpus, int64_t tp, int64_t pp,
                      int64_t batch, double teraflops) {
  return {.name = name,
          .label = label,
          .source = kMegatron,
          .seen = kCopies,
          .scenario = of(model, "a100", gpus, early(batch)),
          .fixed = {.pp = pp, .cp = 1, .tp = tp, .zero = 0, .recompute = 2},
          .published = teraflops / 312,
          .with_recomputation = true,
          .assumed = "micro-batch and chunks: the best"};
}

PublishedRun turing(const char* name, const char* label, int64_t gpus, double teraflops) {
  return {
      .name = name,
      .label = label,
      .source = kSmith,
      .seen = "llm-analysis, which quotes §2.4; the paper of PaLM",
      .scenario = of(gpt(530e9, 105, 20480, 128, 50257), "a100", gpus, early(1920, Schedule::OneForwardOneBackward)),
      .fixed = {.pp = 35, .cp = 1, .tp = 8, .zero = 0, .recompute = 2, .micro_batch = 1},
      .published = teraflops / 312,
      .with_recomputation = true,
      .assumed = "micro-batch 1"};
}

/// Selective recomputation with sequence parallelism, one copy of the model unless `gpus` are more. No run of this
/// paper took part in the choice of η.
PublishedRun korthikanti(const char* name, const char* label, const Model& model, int64_t gpus, int64_t pp,
                         int64_t batch, int64_t micro_batch, int64_t chunks, double share) {
  return {.name = name,
          .label = label,
          .source = kKorthikanti,
          .seen = "the paper; the README of Megatron-LM",
          .scenario = of(model, "a100", gpus, {.batch = batch, .chunks = chunks, .flash_attention = false}),
          .fixed = {.pp = pp, .cp = 1, .tp = 8, .zero = 0, .recompute = 1, .micro_batch = micro_batch},
          .published = share,
          .with_recomputation = false,
          .assumed = ""};
}

/// Gradients in f32, sharded as the optimizer is, weights not: ZeRO-2.
PublishedRun llama(const char* name, const char* label, int64_t gpus, double share) {
  Job job{.batch = 2048, .chunks = 8};
  job.gradient_bytes = 4;
  return {.name = name,
          .label = label,
          .source = kLlama,
          .seen = kPaper,
          .scenario = of(model("405b"), "h100", gpus, job),
          .fixed = {.pp = 16, .cp = 1, .tp = 8, .zero = 2, .recompute = 0, .micro_batch = 1},
          .published = share,
          .with_recomputation = false,
          .assumed = "micro-batch 1; 8 chunks, of a layer each"};
}

PublishedRun bloom() {
  PublishedRun run{
      .name = "bloom",
      .label = "BLOOM 176B, 384 A100",
      .source = "Le Scao 2022, §3.4",
      .seen = "the training's README, script and log; GENCI's account; not the paper",
      .scenario = of(gpt(176e9, 70, 14336, 112, 250880), "a100", 384, early(2048, Schedule::OneForwardOneBackward)),
      .fixed = {.pp = 12, .cp = 1, .tp = 4, .zero = 1, .recompute = 2, .micro_batch = 2},
      .published = 156.0 / 312,
      .with_recomputation = true,
      .assumed = ""};
  run.scenario.cluster.bandwidth_out = 6.25e9;  // 4 Omni-Path links of 100 Gb/s for 8 GPUs
  return run;
}

/// 147 TFLOP/s count recomputation: 300 · 10⁹ tokens on 1,024 GPUs in 33 days, as its logbook plans, are 144 with 8Ψ.
PublishedRun opt() {
  return {.name = "opt",
          .label = "OPT-175B, 992 A100",
          .source = "Zhang 2022, §2.4 and table 1",
          .seen = kPaper,
          .scenario = of(gpt(175e9, 96, 12288, 96, 50272), "a100", 992, early(992)),
          .fixed = {.pp = 1, .cp = 1, .tp = 8, .zero = 3, .recompute = 2},
          .published = 147.0 / 312,
          .with_recomputation = true,
          .assumed = "tp 8; recomputation counted; the paper says \"up to\""};
}

/// 6,144 TPU v4 as two hosts of 3,072: 275 TFLOP/s, 32 GiB at 1.2 TB/s, 300 GB/s to the neighbours in a pod.
PublishedRun palm() {
  Model shape{.parameters = 540e9, .layers = 118, .hidden = 18432, .heads = 48};
  shape.kv_heads = 1;
  shape.attention = 48 * 256;
  shape.keys = 2 * 256;
  shape.ffn = 4 * shape.hidden;
  shape.mlp_matrices = 3;
  shape.vocabulary = 256000;
  shape.sequence = 2048;
  Job job{.batch = 2048, .flash_attention = false};
  PublishedRun run{
      .name = "palm",
      .label = "PaLM 540B, 6,144 TPU v4",
      .source = "Chowdhery 2022, table 3",
      .seen = kPaper,
      .scenario = of(shape, "a100", 6144, job),
      .fixed = {.pp = 1, .cp = 1, .tp = 12, .zero = 3, .recompute = 2},
      .published = 0.462,
      .with_recomputation = false,
      .assumed = "products and latencies as on A100, 50 Gb/s a chip between pods, weights sharded over both"};
  Cluster& cluster = run.scenario.cluster;
  cluster.gpus_per_host = 3072;
  cluster.memory = 34.4e9;
  cluster.flops = 275e12;
  cluster.memory_bandwidth = 1200e9;
  cluster.bandwidth_in = 300e9;
  cluster.bandwidth_out = 6.25e9;
  return run;
}

PublishedRun gpt3() {
  PublishedRun run{.name = "gpt-3",
                   .label = "GPT-3 175B, 10,000 V100",
                   .source = "Chowdhery 2022, table 3; Brown 2020, table 2.1; Patterson 2021",
                   .seen = "the papers",
                   .scenario = of(model("175b"), "v100", 10000, early(1600)),
                   .fixed = {.cp = 1},
                   .published = 0.213,
                   .with_recomputation = false,
                   .assumed = "the whole layout: the best; 50 GB/s a host"};
  run.scenario.cluster.bandwidth_out = 6.25e9;
  return run;
}

PublishedRun deepseek() {
  Job job{.batch = 15360, .schedule = Schedule::DualPipe};
  job.matmul_rate = kFp8Rate;
  return {.name = "deepseek-v3",
          .label = "DeepSeek-V3 671B, 2,048 H800",
          .source = "DeepSeek 2025, table 4; DeepSeek 2024, §3",
          .seen = "the papers",
          .scenario = of(model("deepseek-v3"), "h800", 2048, job),
          .fixed = {.pp = 16, .cp = 1, .ep = 64, .tp = 1, .zero = 1, .recompute = 1, .micro_batch = 1},
          .published = 0.4373,
          .with_recomputation = false,
          .assumed = "micro-batch 1; its multi-token prediction is not counted"};
}

std::vector<PublishedRun> all_runs() {
  return {
      megatron("megatron-1.7b", "GPT 1.7B, 32 A100", gpt(1.7e9, 24, 2304, 24), 32, 1, 1, 512, 137),
      megatron("megatron-3.6b", "GPT 3.6B, 64 A100", gpt(3.6e9, 30, 3072, 32), 64, 2, 1, 512, 138),
      megatron("megatron-7.5b", "GPT 7.5B, 128 A100", gpt(7.5e9, 36, 4096, 32), 128, 4, 1, 512, 142),
      megatron("megatron-18b", "GPT 18.4B, 256 A100", gpt(18.4e9, 40, 6144, 48), 256, 8, 1, 1024, 135),
      megatron("megatron-39b", "GPT 39.1B, 512 A100", gpt(39.1e9, 48, 8192, 64), 512, 8, 2, 1536, 138),
      megatron("megatron-76b", "GPT 76.1B, 1,024 A100", gpt(76.1e9, 60, 10240, 80), 1024, 8, 4, 1792, 140),
      megatron("megatron-145b", "GPT 145.6B, 1,536 A100", gpt(145.6e9, 80, 12288, 96), 1536, 8, 8, 2304, 148),
      megatron("megatron-310b", "GPT 310.1B, 1,920 A100", gpt(310.1e9, 96, 16384, 128), 1920, 8, 16, 2160, 155),
      megatron("megatron-530b", "GPT 529.6B, 2,520 A100", gpt(529.6e9, 105, 20480, 128), 2520, 8, 35, 2520, 163),
      megatron("megatron-1t", "GPT 1008B, 3,072 A100", gpt(1008e9, 128, 25600, 160), 3072, 8, 64, 3072, 163),
      llama("llama3-405b-8k", "Llama 3 405B, 8,192 H100", 8192, 0.43),
      llama("llama3-405b", "Llama 3 405B, 16,384 H100", 16384, 0.41),
      bloom(),
      opt(),
      turing("mt-nlg", "MT-NLG 530B, 2,240 A100", 2240, 126),
      turing("mt-nlg-2800", "MT-NLG 530B, 2,800 A100", 2800, 121),
      turing("mt-nlg-3360", "MT-NLG 530B, 3,360 A100", 3360, 113),
      korthikanti("korthikanti-22b", "GPT 22B, 8 A100", gpt(22e9, 48, 6144, 64), 8, 1, 4, 4, 1, 0.415),
      korthikanti("korthikanti-175b", "GPT 175B, 64 A100", gpt(175e9, 96, 12288, 96), 64, 8, 64, 1, 3, 0.514),
      korthikanti("korthikanti-530b", "GPT 530B, 280 A100", gpt(530e9, 105, 20480, 128), 280, 35, 280, 1, 3, 0.560),
      korthikanti("korthikanti-530b-dp", "GPT 530B, 2,240 A100", gpt(530e9, 105, 20480, 128), 2240, 35, 2240, 1, 3,
                  0.542),
      korthikanti("korthikanti-1t", "GPT 1T, 512 A100", gpt(1e12, 128, 25600, 160), 512, 64, 512, 1, 1, 0.563),
      palm(),
      gpt3(),
      deepseek(),
  };
}

}  // namespace

std::span<const PublishedRun> published_runs() {
  static const std::vector<PublishedRun> kRuns = all_runs();
  return kRuns;
}

Prediction predict(const PublishedRun& run, double efficiency) {
  Prediction prediction;
  Scenario scenario = run.scenario;
  scenario.cluster.efficiency = efficiency;
  Outcome outcome = search(scenario, run.fixed, 1);
  if (outcome.best.empty()) {  // by the estimate; the run itself trained
    prediction.fits = false;
    scenario.cluster.memory *= 10;
    outcome = search(scenario, run.fixed, 1);
  }
  prediction.candidate = outcome.best.front();
  prediction.share = prediction.candidate.at(run.with_recomputation ? "HFU" : "MFU");
  prediction.error = prediction.share / run.published - 1;
  return prediction;
}

double matching_efficiency(const PublishedRun& run) {
  constexpr int kHalvings = 10;  // to less than 0.001
  double low = 0.2, high = 1;    // the prediction grows with it
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (predict(run, middle).error < 0 ? low : high) = middle;
  }
  return high;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::vector<HeldOut> hold_out() {
  const auto paper_of = [](const PublishedRun& run) {
    const std::string_view source = run.source;
    return std::string(source.substr(0, source.find(',')));
  };
  std::vector<HeldOut> all;
  std::vector<std::pair<std::string, double>> matching;
  for (const PublishedRun& run : published_runs()) {
    matching.emplace_back(paper_of(run), matching_efficiency(run));
    const auto is_this = [&](const HeldOut& held) { return held.paper == matching.back().first; };
    if (std::none_of(all.begin(), all.end(), is_this)) all.push_back({.paper = matching.back().first, .errors = {}});
  }
  for (HeldOut& held : all) {
    std::vector<double> others;
    for (const auto& [paper, efficiency] : matching) {
      if (paper != held.paper) others.push_back(efficiency);
    }
    held.efficiency = median(others);
    for (const PublishedRun& run : published_runs()) {
      if (paper_of(run) == held.paper) held.errors.push_back(predict(run, held.efficiency).error);
    }
  }
  return all;
}

}  // namespace tutti::train::planner
