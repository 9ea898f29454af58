#include "tools/lab/topology.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/format.hpp"
#include "select/machine.hpp"
#include "tools/machine_options.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;

constexpr const char* kUsual = "h100";

/// The first GPU with this compute capability that data sheets are known of; "": none.
const char* gpu_with(int sm) {
  constexpr std::pair<int, const char*> kKnown[] = {
      {70, "v100"}, {80, "a100"}, {89, "l40s"}, {90, "h100"}, {100, "b200"}};
  for (const auto& [capability, name] : kKnown) {
    if (sm == capability) return name;
  }
  return "";
}

/// "NVIDIA A100-SXM4-80GB" → "a100"; "": it names none of data sheets.
std::string gpu_named_in(std::string model) {
  std::transform(model.begin(), model.end(), model.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const planner::NamedCluster& known : planner::named_clusters()) {
    if (model.find(known.name) != std::string::npos) return known.name;
  }
  return "";
}

topo::Node first_gpu(const topo::Graph& graph) {
  const std::vector<topo::NodeId> gpus = graph.all(topo::NodeKind::Gpu);
  return gpus.empty() ? topo::Node{} : graph.nodes[gpus.front()];
}

}  // namespace

std::string gpu_of(const LabOptions& options) {
  if (options.gpu) return *options.gpu;
  if (options.topology.empty()) return kUsual;
  const topo::Node gpu = first_gpu(topology_from(options.topology, options.nvlink, 1));
  if (std::string named = gpu_named_in(gpu.model); !named.empty()) return named;
  const std::string known = gpu_with(gpu.sm);
  std::string taken = known.empty() ? kUsual : known;
  const std::string what =
      gpu.sm > 0 ? fmt::format("only says that its GPUs have compute capability {}.{}", gpu.sm / 10, gpu.sm % 10)
                 : "does not say which GPUs it has";
  fmt::print(stderr, "tutti lab: note: {} {}: memory and rates are those of --gpu {}; name another by it\n",
             options.topology, what, taken);
  return taken;
}

void take_topology(const LabOptions& options, planner::Cluster& cluster) {
  const auto of_hosts = [&](int64_t hosts) {
    return select::inputs_of(topology_from(options.topology, options.nvlink, hosts), 0);
  };
  const select::MachineInputs own = of_hosts(options.hosts);
  if (own.notes.ends != "GPUs") throw_error(Code::InvalidArgument, "--topo {}: it has no GPUs", options.topology);
  cluster.gpus = own.inputs.ranks;
  cluster.gpus_per_host = own.inputs.groups->largest();
  const bool more = own.notes.hosts == 1 && options.gpus.value_or(0) > cluster.gpus;
  // Such hosts are alike, so two of them tell what their network costs; also the page, which has any number of GPUs.
  const select::MachineInputs joined = own.notes.hosts == 1 ? of_hosts(2) : own;
  for (const std::string& note : (more ? joined : own).notes.unknown) fmt::print(stderr, "tutti lab: note: {}\n", note);
  const select::LinkCost &inside = own.inputs.inside, &outside = joined.inputs.between;
  cluster.alpha_in = inside.alpha;
  cluster.bandwidth_in = 1 / inside.beta;
  cluster.alpha_out = outside.alpha;
  cluster.bandwidth_out = 1 / outside.beta;
}

}  // namespace tutti::tools
