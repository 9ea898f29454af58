// The options of `tutti lab`, and the scenario that they describe.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/lab/group_selector.hpp"
#include "train/planner/formulas.hpp"

namespace tutti::tools {

struct LabOptions {
  std::optional<std::string> model, parameters, gpu, memory, schedule, recompute, mlp, gradients;
  std::optional<int64_t> layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, experts, top_k;
  std::optional<int64_t> gpus_per_host, batch, chunks;
  std::optional<double> bandwidth_in, bandwidth_out, alpha_in_us, alpha_out_us, tflops, efficiency, usable, contention;
  std::optional<int64_t> gpus;
  std::string topology;
  double nvlink = 0;  // GB/s
  int64_t hosts = 1;
  bool no_sequence_parallel = false, no_flash = false, dropout = false, fp8 = false, all = false;
  train::planner::Fixed fixed;
  std::optional<std::string> tokens, published;
  std::optional<double> price, gpu_mtbf_hours, checkpoint_s, restart_s;
  bool largest = false;
  std::string json, html;

  void add_to(CLI::App& command);
};

/// What is asked for, with its names for people.
struct LabScenario {
  std::string model_name;    ///< of named_models(), or "custom"
  std::string model_label;   ///< "7B (Llama 2)"
  std::string cluster_name;  ///< of named_clusters()
  train::planner::Scenario scenario;
  train::planner::Run run;
  std::shared_ptr<GroupSelector> selector = nullptr;  ///< with a topology: whose times scenario.times has
};

/// Throws Error(InvalidArgument) that says which option is wrong and what it may be.
LabScenario scenario_of(const LabOptions& options);

/// "1.5b" → 1.5e9: a number with k, m, b (or g) or t. Throws Error(InvalidArgument) that names `option`.
double read_count(const std::string& text, const char* option);
/// "80", "80GB", "80GiB" → bytes; plain numbers are GB.
double read_memory(const std::string& text, const char* option);

}  // namespace tutti::tools
