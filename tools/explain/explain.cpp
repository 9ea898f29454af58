// tutti explain: which algorithm a call gets, and why no other.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bytes.hpp"
#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/spelling.hpp"
#include "select/explain.hpp"
#include "select/gpus.hpp"
#include "select/job.hpp"
#include "select/links_alone.hpp"
#include "select/profile.hpp"
#include "select/synthesis.hpp"
#include "select/synthesised.hpp"
#include "tools/commands.hpp"
#include "tools/explain/notes.hpp"
#include "tools/machine_options.hpp"
#include "tools/output_file.hpp"
#include "tools/output_option.hpp"
#include "tools/progress.hpp"
#include "tools/wrapped.hpp"
#include "topo/detect.hpp"
#include "topo/nvml.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

struct ExplainOptions {
  std::string collective, bytes = "1M", topology;
  Rank ranks = 0, hosts = 1;
  std::optional<Rank> root;
  double nvlink = 0;  // GB/s
  std::vector<std::string> without;
  std::string device;  // "": not given
  bool json = false, synth = false;
  std::string file;
};

select::MeasuredGpus measured_gpus(const topo::Graph& graph, const std::vector<topo::NodeId>& gpus) {
  std::set<std::string> models;
  for (const topo::NodeId gpu : gpus) {
    if (graph.nodes[gpu].sm > 0) models.insert(graph.nodes[gpu].model);  // as the driver names it
  }
  return {.models = {models.begin(), models.end()}, .driver = ""};
}

/// What a call is priced on.
struct PricedOn {
  select::MachineInputs made;
  topo::Graph graph;
  std::vector<topo::NodeId> ranks;  // by rank: where it stands; empty: unknown
};

/// This machine's GPUs, with ranks on them in order, each a process, as `tutti perf --device cuda` places them.
PricedOn machine_of_gpus(const ExplainOptions& options) {
  if (options.hosts > 1) {
    throw_error(Code::InvalidArgument,
                "--device cuda is about the GPUs of this machine: leave out --hosts, or give a topology (--topo)");
  }
  topo::Graph graph = topo::gpu_topology();
  const std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu);
  if (gpus.empty()) {
    const std::string problem = topo::read_nvml().problem;
    throw_error(Code::Unsupported, "--device cuda: no GPU is seen here: {}; --topo FILE tells of another machine",
                problem.empty() ? "the driver's libnvidia-ml.so.1 is not found, or names none" : problem);
  }
  const size_t ranks = options.ranks > 0 ? static_cast<size_t>(options.ranks) : std::max<size_t>(2, gpus.size());
  graph.ranks.clear();
  for (size_t rank = 0; rank < ranks; ++rank) graph.ranks.push_back(gpus[rank % gpus.size()]);
  const auto profile = select::profile_for(measured_gpus(graph, gpus));
  graph.figures = select::figures_of_gpus(profile.get());
  select::MachineInputs made = select::inputs_of(graph, 0);
  made.inputs.profile = profile;
  made.inputs.situation = select::situation_on(*made.inputs.groups, select::count_gpus(graph), "GPU", made.notes.over,
                                               env().cuda_memory == CudaMemory::Host);
  std::vector<topo::NodeId> places = graph.ranks;
  return {std::move(made), std::move(graph), std::move(places)};
}

PricedOn machine_of(const ExplainOptions& options) {
  if (!options.topology.empty()) {
    topo::Graph graph = topology_from(options.topology, options.nvlink, options.hosts, options.without);
    if (options.device == "cuda" && graph.all(topo::NodeKind::Gpu).empty()) {
      throw_error(Code::InvalidArgument, "--device cuda: {} has no GPU", options.topology);
    }
    select::MachineInputs made = select::inputs_of(graph, options.ranks);
    if (select::is_job(graph)) made.notes.ends = "ranks";
    std::vector<topo::NodeId> places = select::place_ranks(graph, options.ranks).nodes;
    if (options.device == "host" && graph.nodes[places.front()].kind == topo::NodeKind::Gpu) {
      made.notes.unknown.push_back("--device host is not used: ranks of a topology that has GPUs are on these");
    }
    return {std::move(made), std::move(graph), std::move(places)};
  }
  check_has_topology(options.nvlink, options.without);
  if (options.device == "cuda") return machine_of_gpus(options);
  const Rank ranks = options.ranks > 0 ? options.ranks : 2 * options.hosts;
  if (ranks < options.hosts) {
    throw_error(Code::InvalidArgument, "-n {}: {} need at least as many ranks", ranks,
                counted(static_cast<uint64_t>(options.hosts), "host"));
  }
  auto profile = select::local_profile();  // before its figures are asked for
  select::use_local_figures();
  select::MachineInputs made = select::inputs_as_run(ranks, options.hosts);
  made.inputs.profile = std::move(profile);
  const auto hosts = select::inputs_here(ranks, options.hosts).inputs.groups;
  made.inputs.situation = select::situation_of(env().groups.empty() ? *hosts : *made.inputs.groups,
                                               options.hosts > 1 ? "shm+tcp" : "shm", made.inputs.oversubscription > 1);
  topo::Graph graph = select::graph_as_run(ranks, options.hosts);
  std::vector<topo::NodeId> places = graph.ranks;
  return {std::move(made), std::move(graph), std::move(places)};
}

void print_text(const ExplainOptions& options, Collective collective, uint64_t bytes,
                const select::MachineInputs& machine, const std::vector<select::Candidate>& all) {
  const select::CostInputs& s = machine.inputs;
  const select::MachineNotes& notes = machine.notes;
  const std::string size = collective == Collective::Barrier ? "" : " of " + to_text(Bytes{bytes});
  fmt::print("{}{} on {}", name_of(collective), size, counted(static_cast<uint64_t>(s.ranks), "rank"));
  if (notes.hosts > 1) fmt::print(" of {}", counted(static_cast<uint64_t>(notes.hosts), "host"));
  fmt::print(", {}\n", !options.topology.empty()  ? "on the " + notes.ends + " of " + options.topology
                       : options.device == "cuda" ? "GPUs of this machine"
                                                  : "this machine");
  fmt::print("{}\n", select::machine_text(s, notes));
  for (const std::string& note : notes.unknown) fmt::print("  note: {}\n", wrapped(note, 8));
  const uint64_t block = select::block_bytes(collective, bytes, s.ranks);
  const bool measured = !all.empty() && all.front().measured;
  const std::optional<double> links = all.empty() ? std::nullopt : select::links_alone(all.front(), block, s);
  fmt::print("\n{}\n", select::explanation(all, block, s));
  if (links) {
    fmt::print("  links alone: {:.4g} us, which `tutti sim` replays; the rest is what kernels take\n", *links * 1e6);
  } else if (!all.empty() && *all.front().row.method == exec::methods::nvls) {
    fmt::print("  `tutti sim` knows no switch that folds: it replays slots, which send more\n");
  }
  fmt::print("\n{}\n", measured ? "Measured by `tutti tune`." : "Times are a model's, not measured ones.");
}

std::string json_text(Collective collective, uint64_t bytes, const select::MachineInputs& machine,
                      const std::vector<select::Candidate>& all) {
  const select::CostInputs& s = machine.inputs;
  const auto link = [](const select::LinkCost& cost, const std::string& kind) {
    return ordered_json{{"kind", kind}, {"alpha", cost.alpha}, {"beta", cost.beta}};
  };
  ordered_json page{{"collective", name_of(collective)},
                    {"bytes", bytes},
                    {"ranks", s.ranks},
                    {"hosts", machine.notes.hosts},
                    {"inside", link(s.inside, machine.notes.inside)}};
  if (machine.notes.hosts > 1 || s.groups->has_two_levels()) page["between"] = link(s.between, machine.notes.between);
  if (machine.notes.rails > 0) page["rails"] = machine.notes.rails;
  if (!machine.notes.links.empty()) page["links"] = machine.notes.links;
  if (!machine.notes.unknown.empty()) page["notes"] = machine.notes.unknown;
  const uint64_t block = select::block_bytes(collective, bytes, s.ranks);
  const auto least = select::least_time(collective, block, s);
  if (least) page["bound"] = {{"seconds", least->seconds}, {"exact", least->exact}, {"certificate", least->words}};
  if (const auto folding = select::least_time_folding(collective, block, s)) {
    page["bound_of_nvls"] = {{"seconds", folding->seconds}, {"exact", folding->exact}, {"certificate", folding->words}};
  }
  page["candidates"] = ordered_json::array();
  for (const select::Candidate& candidate : all) {
    ordered_json row{{"algorithm", select::name_of_algorithm(candidate.row)}, {"method", candidate.row.method->name}};
    if (candidate.rejected.empty()) {
      row["seconds"] = candidate.predicted.seconds();
      row["latency"] = candidate.predicted.latency;
      row["bandwidth"] = candidate.predicted.bandwidth;
      row["reduction"] = candidate.predicted.reduction;
      if (candidate.measured) row["measured"] = *candidate.measured;
      row["window"] = select::window_for(candidate.row, block);
      row["width"] = candidate.row.width;
      const auto own = select::least_time(candidate, block, s);
      if (select::share_of_bound(own, candidate.seconds) != "-") row["of_bound"] = own->seconds / candidate.seconds;
    }
    if (&candidate == all.data()) {
      if (const auto links = select::links_alone(candidate, block, s)) row["links_alone"] = *links;
    }
    if (select::is_synthesised(select::name_of_algorithm(candidate.row))) row["synthesised"] = true;
    row["verdict"] = select::verdict(candidate, all.front());
    page["candidates"].push_back(std::move(row));
  }
  return page.dump(2) + "\n";
}

void add_notes(const ExplainOptions& options, Collective collective, const std::vector<select::Candidate>& all,
               PricedOn& known) {
  std::vector<std::string>& notes = known.made.notes.unknown;
  const auto add = [&](const std::vector<std::string>& more) { notes.insert(notes.end(), more.begin(), more.end()); };
  const bool gpus = known.made.notes.ends == "GPUs" || options.device == "cuda";
  add(notes_of_shared_gpus(known.graph, known.ranks));
  add(notes_of_variables(collective, gpus, known.made.inputs, all));
  if (options.topology.empty() && !gpus) add(notes_of_calibration());
}

/// As if `tutti tune --synth` had made them.
void synthesise(PricedOn& machine) {
  if (machine.ranks.size() < 2) throw_error(Code::InvalidArgument, "--synth: it is not known where the ranks stand");
  Progress progress;
  select::CostInputs& inputs = machine.made.inputs;
  const select::SynthesisedText page = select::synthesise_for(
      machine.graph, machine.ranks, inputs, [&](const std::string& what) { progress.show("# " + what); });
  progress.show("# verifying the plans");
  inputs.synthesised = select::read_synthesised(select::to_text(page), page.key, page.ranks);
  progress.clear();
}

void explain(const ExplainOptions& options) {
  check_output("-o", options.file, {options.topology});
  const Collective collective = read_collective(options.collective, "");
  auto bytes = read_call_bytes(options.bytes, "--bytes");
  if (collective == Collective::Barrier) bytes = Bytes{0};
  PricedOn known = machine_of(options);
  if (options.root) check_root(*options.root, collective, known.made.inputs.ranks);
  if (options.synth) synthesise(known);
  known.made.inputs.root = options.root;
  select::add_bound(known.graph, known.ranks, collective, options.root, known.made.inputs);
  const select::MachineInputs& machine = known.made;
  const uint64_t block = select::block_bytes(collective, bytes, machine.inputs.ranks);
  const auto all = select::priced_candidates(collective, block, machine.inputs);
  if (all.empty()) {
    throw_error(Code::InvalidArgument, "{} has no algorithms to choose from: it is sent directly", name_of(collective));
  }
  add_notes(options, collective, all, known);
  const std::string json = json_text(collective, bytes, machine, all);
  if (!options.file.empty()) write_file("-o", options.file, json);
  const bool output_taken = options.file == kStandardOutput;
  if (options.json && !output_taken) fmt::print("{}", json);
  if (!options.json && !output_taken) print_text(options, collective, bytes, machine, all);
  if (all.front().rejected.empty()) return;
  std::fflush(stdout);
  select::Choices(collective, machine.inputs).row(block, {});  // throws, as where a communicator is made
  throw_error(Code::Unsupported, "{}: {}", name_of(collective), all.front().rejected);
}

}  // namespace

void add_explain(CLI::App& app) {
  CLI::App* command = app.add_subcommand("explain", "which algorithm a call gets, and why no other");
  const auto options = std::make_shared<ExplainOptions>();
  add_call(*command, options->collective, options->bytes, options->ranks);
  command->add_option("--topo", options->topology, "on this machine: NCCL's XML, hwloc's XML, or Tutti's JSON")
      ->type_name("FILE");
  command
      ->add_option("--device", options->device,
                   "cuda: calls on memory of this machine's GPUs, or those of --topo, which has ranks on its "
                   "GPUs by itself; default host")
      ->check(CLI::IsMember({"host", "cuda"}));
  add_nvlink(*command, options->nvlink);
  add_without(*command, options->without);
  command->add_option("--hosts", options->hosts, "this many such hosts, joined by a network; default 1")
      ->check(CLI::Range(1, kMaxModelled));
  command
      ->add_option(
          "--root", options->root,
          "of broadcast, reduce, gather and scatter: prices for calls with this root; default the mean of all, "
          "by which communicators choose")
      ->check(CLI::Range(0, kMaxModelled - 1));
  command->add_flag("--synth", options->synth,
                    "with plans made for this machine, as `tutti tune --synth` would keep them");
  command->add_flag("--json", options->json, "as JSON, times in seconds");
  add_output(*command, {{".json", "the same", &options->file}});
  command->footer(
      "TUTTI_ALGO, TUTTI_REPRODUCIBLE and TUTTI_PROFILE count as in a communicator. docs/selection.md explains the "
      "table.\n"
      "Examples:\n  tutti explain all_reduce --bytes 1M -n 8\n"
      "  tutti explain all_reduce --bytes 1G --topo hgx.xml --hosts 4\n");
  command->callback([options] { explain(*options); });
}

}  // namespace tutti::tools
