#include "tools/lab/options.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/format.hpp"
#include "base/spelling.hpp"
#include "tools/lab/topology.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_option.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;

struct Suffix {
  const char* text;
  double factor;
};

double read_number(const std::string& text, const char* option, std::initializer_list<Suffix> suffixes,
                   const char* example) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string rest(end);
  std::transform(rest.begin(), rest.end(), rest.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto suffix = std::find_if(suffixes.begin(), suffixes.end(), [&](const Suffix& s) { return rest == s.text; });
  if (end == text.c_str() || suffix == suffixes.end() || !std::isfinite(number) || number <= 0) {
    throw_error(Code::InvalidArgument, "{} takes a number such as {}, not '{}'", option, example, text);
  }
  return number * suffix->factor;
}

template <class Named>
const Named& named(std::span<const Named> all, const std::string& name, const char* option) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Named& n) { return name == n.name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Named& n : all) names.emplace_back(n.name);
  throw_error(Code::InvalidArgument, "{} knows no '{}'{}; it knows {}", option, name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

int64_t one_of(const std::string& word, const char* option, const std::vector<std::string>& words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return found - words.begin();
  throw_error(Code::InvalidArgument, "{} is one of {}, not '{}'{}", option, fmt::join(words, ", "), word,
              did_you_mean(word, words));
}

void in_range(const char* option, const char* what, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw_error(Code::InvalidArgument, "{}: {} must be between {:.10g} and {:.10g}, not {:.10g}", option, what, least,
              most, value);
}

/// Says which option has a value that cannot be, in the option's own unit.
void check_numbers(const LabOptions& o) {
  constexpr double kMaxSize = 1e8, kMaxGpus = 1 << 20, kMaxRate = 1e6;
  const auto check = [](const char* option, const char* what, const auto& value, double least, double most) {
    if (value) in_range(option, what, static_cast<double>(*value), least, most);
  };
  check("--layers", "the number of layers", o.layers, 1, kMaxSize);
  check("--hidden", "the hidden size", o.hidden, 1, kMaxSize);
  check("--heads", "the number of heads", o.heads, 1, kMaxSize);
  check("--kv-heads", "the number of key-value heads", o.kv_heads, 1, kMaxSize);
  check("--ffn", "the width of the MLP", o.ffn, 1, kMaxSize);
  check("--vocab", "the vocabulary", o.vocabulary, 1, kMaxSize);
  check("--seq", "the length of a sequence", o.sequence, 1, kMaxSize);
  check("--experts", "the number of experts", o.experts, 1, kMaxSize);
  check("--top-k", "top-k", o.top_k, 1, kMaxSize);
  check("-n", "the number of GPUs", o.gpus, 1, kMaxGpus);
  check("--gpus-per-host", "the number of GPUs of a host", o.gpus_per_host, 1, kMaxGpus);
  check("--usable", "the usable share of the memory in %", o.usable, 1, 100);
  check("--intra", "the bandwidth inside a host in GB/s", o.bandwidth_in, 1e-3, kMaxRate);
  check("--inter", "the bandwidth between hosts in GB/s", o.bandwidth_out, 1e-3, kMaxRate);
  check("--alpha-intra", "the latency inside a host in µs", o.alpha_in_us, 0, kMaxRate);
  check("--alpha-inter", "the latency between hosts in µs", o.alpha_out_us, 0, kMaxRate);
  check("--tflops", "a GPU's TFLOP/s", o.tflops, 1e-3, kMaxRate);
  check("--efficiency", "the share of the kernels' rates in %", o.efficiency, 0.1, 100);
  check("--contention", "the share of hidden communication that shows in %", o.contention, 0, 100);
  check("--batch", "the batch", o.batch, 1, 1 << 24);
  check("--chunks", "the number of chunks", o.chunks, 1, 1024);
  const planner::Fixed& fixed = o.fixed;
  check("--dp", "the data-parallel size", fixed.dp, 1, kMaxGpus);
  check("--pp", "the number of pipeline stages", fixed.pp, 1, kMaxGpus);
  check("--cp", "the context-parallel size", fixed.cp, 1, kMaxGpus);
  check("--ep", "the expert-parallel size", fixed.ep, 1, kMaxGpus);
  check("--tp", "the tensor-parallel size", fixed.tp, 1, kMaxGpus);
  check("--zero", "the ZeRO stage", fixed.zero, 0, 3);
  check("--micro-batch", "the micro-batch", fixed.micro_batch, 1, 1 << 24);
}

planner::Model model_of(const LabOptions& o) {
  planner::Model model;
  if (o.model) model = named(planner::named_models(), *o.model, "--model").model;
  if (o.parameters) {
    model.parameters = read_count(*o.parameters, "--params");
    in_range("--params", "the number of parameters", model.parameters, 1e6, 1e15);
    model.in_experts = 0;  // in proportion
  }
  const bool shape_changes =
      o.layers || o.hidden || o.heads || o.kv_heads || o.ffn || o.vocabulary || o.experts || o.mlp;
  if (o.model && shape_changes && !o.parameters) model.parameters = model.in_experts = 0;  // counted again
  const auto given = [](int64_t& value, const std::optional<int64_t>& option) { value = option.value_or(value); };
  if (o.mlp) model.mlp_matrices = 2 + one_of(*o.mlp, "--mlp", {"plain", "gated"});
  model.dropout = model.dropout || o.dropout;
  given(model.layers, o.layers);
  given(model.hidden, o.hidden);
  given(model.heads, o.heads);
  given(model.kv_heads, o.kv_heads);
  given(model.ffn, o.ffn);
  given(model.vocabulary, o.vocabulary);
  given(model.sequence, o.sequence);
  given(model.experts, o.experts);
  given(model.top_k, o.top_k);
  return planner::completed(model);
}

/// Options that contradict each other, or count for nothing.
void check_cluster(const LabOptions& o, const std::string& gpu) {
  if (o.fp8 && (gpu == "v100" || gpu == "a100")) {
    throw_error(Code::InvalidArgument,
                "--fp8: GPU {} has no matrix products in fp8; l40s, h100 and later ones have them", gpu);
  }
  if (!o.topology.empty()) return;
  check_has_topology(o.nvlink, {});
  if (o.hosts > 1)
    throw_error(Code::InvalidArgument,
                "--hosts: give the topology too, by --topo; without one, -n says "
                "how many GPUs there are, and --gpus-per-host how many a host has");
}

planner::Cluster cluster_of(const LabOptions& o, const std::string& gpu) {
  planner::Cluster cluster = named(planner::named_clusters(), gpu, "--gpu").cluster;
  check_cluster(o, gpu);
  if (!o.topology.empty()) take_topology(o, cluster);
  if (o.gpus && o.hosts > 1 && *o.gpus != cluster.gpus) {
    throw_error(Code::InvalidArgument, "--gpus {}: the {} hosts of --topo have {}; leave out --gpus or --hosts",
                *o.gpus, o.hosts, cluster.gpus);
  }
  cluster.gpus = o.gpus.value_or(cluster.gpus);
  cluster.gpus_per_host = o.gpus_per_host.value_or(cluster.gpus_per_host);
  if (o.memory) cluster.memory = read_memory(*o.memory, "--memory");
  in_range("--memory", "a GPU's memory in bytes", cluster.memory, 1e6, 1e15);
  if (o.usable) cluster.usable = *o.usable / 100;
  if (o.tflops) cluster.flops = *o.tflops * 1e12;
  if (o.efficiency) cluster.efficiency = *o.efficiency / 100;
  if (o.contention) cluster.contention = *o.contention / 100;
  if (o.bandwidth_in) cluster.bandwidth_in = *o.bandwidth_in * 1e9;
  if (o.bandwidth_out) cluster.bandwidth_out = *o.bandwidth_out * 1e9;
  if (o.alpha_in_us) cluster.alpha_in = *o.alpha_in_us * 1e-6;
  if (o.alpha_out_us) cluster.alpha_out = *o.alpha_out_us * 1e-6;
  return cluster;
}

/// Times of calls by the selector, unless the links are not the topology's.
void take_selector(const LabOptions& o, LabScenario& lab) {
  const bool other_links = o.gpus_per_host || o.bandwidth_in || o.bandwidth_out || o.alpha_in_us || o.alpha_out_us;
  if (o.topology.empty() || other_links) return;
  lab.selector = std::make_shared<GroupSelector>(
      [file = o.topology, nvlink = o.nvlink](int64_t hosts) { return topology_from(file, nvlink, hosts); });
  lab.scenario.times = std::make_shared<planner::CallTimes>(
      [selector = lab.selector](planner::Call call, planner::Group group) { return selector->curve(call, group); });
}

std::string label_of(const LabOptions& o, const planner::Model& model) {
  const bool as_named = o.model && !o.parameters && !o.layers && !o.hidden && !o.heads && !o.kv_heads && !o.ffn &&
                        !o.vocabulary && !o.experts && !o.top_k && !o.mlp && !o.dropout;
  if (as_named) return named(planner::named_models(), *o.model, "--model").label;
  return fmt::format("{:.4g} billion parameters", model.parameters / 1e9);
}

}  // namespace

double read_count(const std::string& text, const char* option) {
  return read_number(text, option, {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"b", 1e9}, {"g", 1e9}, {"t", 1e12}},
                     "7b or 350m");
}

double read_memory(const std::string& text, const char* option) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  return read_number(text, option,
                     {{"", 1e9}, {"g", 1e9}, {"gb", 1e9}, {"gib", kGiB}, {"tb", 1e12}, {"tib", 1024 * kGiB}},
                     "80GB or 80GiB");
}

planner::Run run_of(const LabOptions& o) {
  planner::Run run;
  const auto given = [](double& value, const std::optional<double>& option, double unit, const char* name) {
    if (option && !(*option >= 1e-9 && *option <= 1e12))
      throw_error(Code::InvalidArgument, "{} must be between 1e-09 and 1e+12, not {}", name, *option);
    if (option) value = *option * unit;
  };
  if (o.tokens) run.tokens = read_count(*o.tokens, "--tokens");
  if (o.tokens) in_range("--tokens", "the number of tokens", run.tokens, 1, 1e20);
  given(run.price, o.price, 1, "--price");
  given(run.mtbf, o.gpu_mtbf_hours, 3600, "--mtbf");
  given(run.checkpoint, o.checkpoint_s, 1, "--checkpoint");
  given(run.restart, o.restart_s, 1, "--restart");
  return run;
}

LabScenario scenario_of(const LabOptions& o) {
  LabScenario lab;
  planner::Scenario& scenario = lab.scenario;
  check_numbers(o);
  scenario.model = model_of(o);
  lab.cluster_name = gpu_of(o);
  scenario.cluster = cluster_of(o, lab.cluster_name);
  lab.model_label = label_of(o, scenario.model);
  lab.model_name =
      o.model && lab.model_label == named(planner::named_models(), *o.model, "--model").label ? *o.model : "custom";
  lab.run = run_of(o);
  take_selector(o, lab);
  scenario.job.batch = 1;  // until the rest is known to be right
  scenario.job.chunks = o.chunks.value_or(scenario.job.chunks);
  scenario.job.sequence_parallel = !o.no_sequence_parallel;
  scenario.job.flash_attention = !o.no_flash;
  if (o.gradients) scenario.job.gradient_bytes = 2 + 2 * one_of(*o.gradients, "--gradients", {"bf16", "f32"});
  if (o.fp8) scenario.job.matmul_rate = planner::kFp8Rate;
  if (o.schedule) {
    const std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe"};
    scenario.job.schedule = static_cast<planner::Schedule>(one_of(*o.schedule, "--schedule", schedules));
  }
  planner::check(scenario);
  scenario.job.batch = o.batch.value_or(planner::usual_batch(scenario.model, scenario.cluster));
  return lab;
}

void LabOptions::add_to(CLI::App& command) {
  command.option_defaults()->group("Model");
  command.add_option("--model,-m", model, "7b, 8b, 13b, 70b, 175b, 405b, 1t, 8x7b or deepseek-v3");
  command.add_option("--params", parameters, "parameters, such as 7b; without a shape, a usual one is assumed");
  command.add_option("--layers", layers, "layers");
  command.add_option("--hidden", hidden, "hidden size");
  command.add_option("--heads", heads, "attention heads (hidden / 128)");
  command.add_option("--kv-heads", kv_heads, "key-value heads (as many)");
  command.add_option("--ffn", ffn, "width of the MLP (4 · hidden)");
  command.add_option("--mlp", mlp, "plain (two matrices; a custom shape's) or gated (three: SwiGLU)");
  command.add_flag("--dropout", dropout, "the model has dropout, whose masks are kept");
  command.add_option("--vocab", vocabulary, "words of the vocabulary (32000)");
  command.add_option("--seq", sequence, "tokens of a sequence (the model's, else 4096)");
  command.add_option("--experts", experts, "experts of a layer (1)");
  command.add_option("--top-k", top_k, "experts that a token uses (1)");
  command.option_defaults()->group("Cluster");
  command.add_option("-n,--gpus", gpus, "GPUs (8)");
  command.add_option("--gpu", gpu,
                     "v100, a100, h100 (default), h800, h200, b200 or l40s: sets what follows; with --topo its own");
  command.add_option("--topo", topology, "hosts and links from NCCL's XML or Tutti's JSON (`tutti topo --import`)")
      ->type_name("FILE");
  add_nvlink(command, nvlink);
  command.add_option("--hosts", hosts, "with --topo: this many such hosts (1)")->check(CLI::Range(1, 4096));
  command.add_option("--memory", memory, "memory of a GPU: 80GB or 80GiB");
  command.add_option("--usable", usable, "% of the memory that the job may use (90)");
  command.add_option("--gpus-per-host", gpus_per_host, "GPUs of a host (8)");
  command.add_option("--intra", bandwidth_in, "GB/s of a GPU inside its host, one direction");
  command.add_option("--inter", bandwidth_out, "GB/s of a GPU to other hosts, one direction");
  command.add_option("--alpha-intra", alpha_in_us, "µs of an empty message inside a host");
  command.add_option("--alpha-inter", alpha_out_us, "µs of an empty message between hosts");
  command.add_option("--tflops", tflops, "peak of a GPU, dense bf16");
  command.add_option("--efficiency", efficiency, "% of the kernels' own rates that training sustains (72)");
  command.add_option("--contention", contention, "% of hidden communication that shows all the same (10)");
  command.option_defaults()->group("Job, and what is not to be searched");
  command.add_option("--batch", batch, "sequences of a step (about 4 million tokens, or 1,024 a GPU)");
  command.add_option("--schedule", schedule,
                     "pipeline: gpipe, 1f1b, interleaved (default; one chunk is 1F1B), zb-h1, dualpipe");
  command.add_option("--chunks", chunks, "model chunks of a rank, interleaved (searched)");
  command.add_flag("--no-sp", no_sequence_parallel, "tensor parallelism without sequence parallelism");
  command.add_option("--dp", fixed.dp, "data-parallel size");
  command.add_option("--pp", fixed.pp, "pipeline stages");
  command.add_option("--cp", fixed.cp, "context-parallel size");
  command.add_option("--ep", fixed.ep, "expert-parallel size");
  command.add_option("--tp", fixed.tp, "tensor-parallel size");
  command.add_option("--zero", fixed.zero, "ZeRO stage: 0, 1, 2 or 3");
  command.add_option("--recompute", recompute, "activations: none, selective or all");
  command.add_option("--gradients", gradients, "bf16 (default) or f32");
  command.add_flag("--no-flash", no_flash, "attention keeps its scores (no FlashAttention)");
  command.add_flag("--fp8", fp8, "matrix products in fp8");
  command.add_option("--micro-batch", fixed.micro_batch, "sequences of a micro-batch");
  command.option_defaults()->group("The whole run");
  command.add_option("--tokens", tokens, "tokens, such as 15.6t (20 for each parameter that a token uses)");
  command.add_option("--price", price, "dollars for an hour of a GPU: the cost");
  command.add_option("--mtbf", gpu_mtbf_hours, "hours between failures of one GPU (50676: Llama 3's)");
  command.add_option("--checkpoint", checkpoint_s, "seconds to write a checkpoint (60)");
  command.add_option("--restart", restart_s, "seconds to notice a failure and start again (600)");
  command.add_flag("--largest", largest, "the largest model whose states fit on -n GPUs, for each ZeRO stage");
  command.add_option("--published", published, "a published run beside its prediction; \"all\": a table of them");
  command.option_defaults()->group("Output");
  command.add_flag("--all", all, "every intermediate value too");
  add_output(command, {{".json", "everything", &json}, {".html", "a page to play with", &html}});
  command.add_option("--json", json, "write everything to this file (\"-\": standard output, instead of the table)");
  command.add_option("--html", html, "write a page to play with to this file; it needs no network");
}

}  // namespace tutti::tools
