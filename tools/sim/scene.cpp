#include "tools/sim/scene.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/calibration.hpp"
#include "select/deliveries.hpp"
#include "select/explain.hpp"
#include "tools/machine_options.hpp"
#include "tools/sim/core_costs.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti::tools {
namespace {

// Of a rank's call, beside its messages: it is checked and numbered, and its program found. Measured on an AMD EPYC.
constexpr double kCall = 30e-9;  // seconds
constexpr uint64_t kGpuStaging = 128 << 20, kGpuMessage = 1 << 20;

/// Of ranks on cores, by the figures in use.
sim::WorkCosts costs_of_cores() {
  const MachineConstants& known = machine_constants();
  return {.call = kCall,
          .software = known.shm_alpha,
          .message = known.shm_alpha * known.message_share,
          .copy = known.shm_beta,
          .write = known.shm_beta,
          .second = known.shm_beta,
          .fold = known.fold_gamma,
          .context_switch = known.context_switch};
}

constexpr uint32_t kElement = 4;

/// What a call touches: the largest rank's input and output.
Footprint footprint_of(Collective collective, uint64_t block, Rank ranks, Rank cores) {
  const auto most = [&](plan::Buffer buffer) {
    const auto blocks =
        std::max(plan::blocks(collective, ranks, buffer, 0), plan::blocks(collective, ranks, buffer, 1));
    return static_cast<uint64_t>(blocks) * block;
  };
  return {.in = most(plan::Buffer::Input),
          .out = most(plan::Buffer::Output),
          .streams = select::is_nontemporal(collective, block, ranks, ranks, false),
          .ranks = ranks,
          .cores = std::min(ranks, cores)};
}

}  // namespace

Scene::Scene(Collective collective, uint64_t bytes, const SceneOptions& options)
    : collective_(collective), bytes_(bytes), block_(bytes), options_(options) {
  options_.topology.empty() ? take_this_machine() : take_topology();
  block_ = select::block_bytes(collective, bytes, ranks());
}

void Scene::take_topology() {
  const topo::Graph graph = topology_from(options_.topology, options_.nvlink, options_.hosts);
  inputs_ = select::inputs_of(graph, options_.ranks);
  const select::RankNodes placed = select::place_ranks(graph, options_.ranks);
  hosts_.assign(placed.hosts.begin(), placed.hosts.end());
  // What an executor of GPUs would take: NCCL's buffers have 4 MiB for each of some 16 to 32 channels.
  if (inputs_.notes.ends == "GPUs") {
    if (!env().arena) inputs_.inputs.staging = kGpuStaging;
    inputs_.inputs.message = std::max(inputs_.inputs.message, kGpuMessage);
    inputs_.inputs.max_width = options_.width;
    inputs_.inputs.methods.resize(1);  // the machine tells no forms of messages apart
  }
  const bool gpus = graph.nodes[placed.nodes.front()].kind == topo::NodeKind::Gpu;
  sim::WorkCosts costs = costs_of_cores();
  if (gpus) costs = {.message = inputs_.inputs.inside.message};
  machine_ = std::make_unique<sim::Machine>(graph, placed.nodes, costs);
}

void Scene::take_this_machine() {
  if (options_.hosts > 1) {
    throw_error(Code::InvalidArgument, "--hosts {}: give the hosts' topology too, by --topo (`tutti topo --json FILE`)",
                options_.hosts);
  }
  // What was measured of this machine, in place of the table's figures.
  const bool tuned = select::has_host_profile();
  const select::Calibration* const measured = tuned ? nullptr : select::local_calibration();
  const Rank ranks = options_.ranks > 0 ? options_.ranks : 2;
  inputs_ = select::inputs_here(ranks, 1);
  const auto cores = static_cast<Rank>(allowed_cores().size());
  inputs_.inputs.oversubscription = std::max(1.0, static_cast<double>(ranks) / cores);
  inputs_.inputs.hand_over.shares_cores = ranks > cores;
  hosts_.assign(static_cast<size_t>(ranks), 0);
  sim::WorkCosts costs = costs_of_cores();
  if (measured != nullptr) {
    refine(*measured, footprint_of(collective_, select::block_bytes(collective_, bytes_, ranks), ranks, cores), costs);
  }
  machine_ = std::make_unique<sim::Machine>(ranks, cores, costs);
}

std::string Scene::words() const {
  std::string text = counted(static_cast<uint64_t>(ranks()), "rank");
  if (hosts() > 1) text += " of " + counted(static_cast<uint64_t>(hosts()), "host");
  if (options_.topology.empty()) return text + ", this machine";
  return text + ", on the " + inputs_.notes.ends + " of " + options_.topology;
}

std::vector<select::Candidate> Scene::candidates() const {
  return select::priced_candidates(collective_, block_, inputs_.inputs);
}

sim::Call Scene::call_of(const select::Candidate& candidate) const {
  const select::CostInputs& inputs = inputs_.inputs;
  const select::Row& row = candidate.row;
  sim::Call call{.algorithm = row.algorithm,
                 .shape = {collective_, inputs.ranks, inputs.order.seen(inputs.groups, 0)},
                 .hosts = hosts_};
  if (!machine_->gpus()) call.near = {.cma = true, .cooperative = true};
  const uint64_t count = std::max<uint64_t>(1, block_ / kElement);
  call.geometry = {.count = count,
                   .window = std::max<uint64_t>(1, select::window_for(row, count * kElement) / kElement),
                   .element_bytes = kElement,
                   .width = row.width,
                   .order = inputs.order,
                   .method = row.method,
                   .rules = row.deliveries};
  return call;
}

}  // namespace tutti::tools
