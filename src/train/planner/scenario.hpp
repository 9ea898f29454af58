// What a plan is asked for: a model, a cluster, a job. And what it answers with: a layout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/planner/call_times.hpp"
#include "train/planner/sheet.hpp"

namespace tutti::train::planner {

struct Model {
  double parameters = 0;  ///< nominal: what the model is called after, or what its shape counts
  double in_experts = 0;  ///< of them
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 32000, sequence = 4096;
  int64_t experts = 1, top_k = 1;
  int64_t mlp_matrices = 2;    ///< 3: gated (SwiGLU); 2: plain
  int64_t attention = 0;       ///< heads · head size; 0: the hidden size
  int64_t keys = 0;            ///< elements of keys and values kept of a token; 0: 2 · attention · kv_heads/heads
  int64_t shared_experts = 0;  ///< which all tokens use
  int64_t fanout = 0;          ///< copies of a token that leave for experts; 0: top_k
  bool dropout = false;
};

/// The one figure of the planner that was chosen to match published runs (bench/results/planner.md): between what
/// kernels reach alone and what training sustains are clocks under load, gaps between kernels, stragglers, input.
constexpr double kSustained = 0.72;

struct Cluster {
  int64_t gpus = 8, gpus_per_host = 8;
  double memory = 80e9;                               ///< bytes of a GPU
  double usable = 0.9;                                ///< share; the rest: CUDA context, libraries, fragmentation
  double flops = 989e12;                              ///< peak of a GPU
  double matmul = 0.803;                              ///< share of the peak that the best matrix product reaches
  double memory_bandwidth = 3350e9;                   ///< B/s
  double efficiency = kSustained;                     ///< share of the kernels' own rates that training sustains
  double alpha_in = 3.4e-6, alpha_out = 14e-6;        ///< s
  double bandwidth_in = 450e9, bandwidth_out = 50e9;  ///< B/s of a GPU, one direction
  double contention = 0.1;  ///< share of hidden communication that the arithmetic beside it is delayed by
};

enum class Schedule { GPipe, OneForwardOneBackward, Interleaved, ZeroBubbleH1, DualPipe };

/// Products in fp8 with scales for each block, on H800: 1,297 and 1,099 TFLOP/s for an expert's two matrices
/// (DeepGEMM), where bf16 reaches 794.5 (Bekman 2026).
constexpr double kFp8Rate = 1.5;

struct Job {
  int64_t batch = 0;  ///< sequences of a step
  Schedule schedule = Schedule::Interleaved;
  int64_t chunks = 0;  ///< of a rank, interleaved only; 0: searched, 1 is 1F1B
  bool sequence_parallel = true;
  bool flash_attention = true;
  int64_t gradient_bytes = 2;  ///< 2: bf16, 4: f32
  double matmul_rate = 1;      ///< of matrix products, by that of bf16: kFp8Rate for fp8
};

struct Scenario {
  Model model;
  Cluster cluster;
  Job job;
  std::shared_ptr<CallTimes> times = nullptr;  ///< of collectives; null: those of rings
};

struct Layout {
  int64_t dp = 1, pp = 1, cp = 1, ep = 1, tp = 1;
  int64_t zero = 0;         ///< ZeRO stage
  int64_t recompute = 0;    ///< 0 nothing, 1 selective, 2 whole layers
  int64_t micro_batch = 1;  ///< sequences
  int64_t chunks = 1;       ///< model chunks of a rank: more than 1 if interleaved
};

struct NamedModel {
  const char* name;
  const char* label;
  Model model;  ///< parameters: 0 if they are to be counted
};

struct NamedCluster {
  const char* name;
  const char* label;
  Cluster cluster;  ///< of data sheets: dense bf16, one direction of the links, one network card per GPU
};

std::span<const NamedModel> named_models();
std::span<const NamedCluster> named_clusters();

/// Fills in what was left 0: parameters from the shape, or the shape from the parameters. Throws Error(InvalidArgument)
/// if neither is given or the shape contradicts itself.
Model completed(Model model);

/// The parameters that the shape counts, which a nominal number only approximates.
double counted_parameters(const Model& model);

/// A batch of about 4 Mi tokens, or 1,024 a GPU if that is more, that divides well between the GPUs.
int64_t usual_batch(const Model& model, const Cluster& cluster);

/// Throws Error(InvalidArgument) that says which number is impossible.
void check(const Scenario& scenario);

/// The inputs of step_sheet(), without a layout.
std::vector<double> values_of(const Scenario& scenario);
void set_layout(std::vector<double>& values, const Layout& layout);

}  // namespace tutti::train::planner
