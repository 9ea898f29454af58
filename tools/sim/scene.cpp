#include "tools/sim/scene.hpp"

#include <algorithm>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "comm/delivery_rules.hpp"
#include "select/calibration.hpp"
#include "select/explain.hpp"
#include "tools/sim/core_costs.hpp"
#include "topo/cluster.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"
#include "topo/import.hpp"
#include "topo/nvlink.hpp"

namespace tutti::tools {
namespace {

constexpr uint64_t kGrain = 128;
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

comm::CallSpec spec_of(Collective collective, uint64_t block) {
  return {.collective = collective, .type = DType::F32, .count = std::max<uint64_t>(1, block / kElement)};
}

/// What a call touches: the largest rank's input and output.
Footprint footprint_of(Collective collective, uint64_t block, Rank ranks, Rank cores) {
  const auto most = [&](plan::Buffer buffer) {
    const auto blocks =
        std::max(plan::blocks(collective, ranks, buffer, 0), plan::blocks(collective, ranks, buffer, 1));
    return static_cast<uint64_t>(blocks) * block;
  };
  return {.in = most(plan::Buffer::Input),
          .out = most(plan::Buffer::Output),
          .streams = comm::is_nontemporal(spec_of(collective, block), ranks, ranks, false),
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
  topo::Graph graph = topo::import_file(options_.topology);
  if (options_.nvlink > 0) topo::add_nvlink(graph, options_.nvlink);
  if (options_.hosts > 1) graph = topo::cluster(graph, static_cast<uint32_t>(options_.hosts));
  setting_ = select::setting_of(graph, options_.ranks);
  const select::RankNodes placed = select::place_ranks(graph, options_.ranks);
  hosts_.assign(placed.hosts.begin(), placed.hosts.end());
  // What an executor of GPUs would take: NCCL's buffers have 4 MiB for each of some 16 to 32 channels.
  if (setting_.notes.ends == "GPUs") {
    if (!env().arena) setting_.setting.staging = kGpuStaging;
    setting_.setting.message = std::max(setting_.setting.message, kGpuMessage);
  }
  const bool gpus = graph.nodes[placed.nodes.front()].kind == topo::NodeKind::Gpu;
  sim::WorkCosts costs = costs_of_cores();
  if (gpus) costs = {.message = setting_.setting.inside.message};
  machine_ = std::make_unique<sim::Machine>(graph, placed.nodes, costs);
}

void Scene::take_this_machine() {
  if (options_.hosts > 1) {
    throw_error(Code::InvalidArgument, "--hosts {}: give the hosts' topology too, by --topo (`tutti topo --json FILE`)",
                options_.hosts);
  }
  // What was measured of this machine, in place of the table's figures.
  const bool tuned = select::local_profile() != nullptr;
  const select::Calibration* const measured = tuned ? nullptr : select::local_calibration();
  if (measured != nullptr) shifts_ = select::shifts_of(*measured);
  const Rank ranks = options_.ranks > 0 ? options_.ranks : 2;
  setting_ = select::setting_here(ranks, 1);
  const auto cores = static_cast<Rank>(allowed_cores().size());
  setting_.setting.oversubscription = std::max(1.0, static_cast<double>(ranks) / cores);
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
  return text + ", on the " + setting_.notes.ends + " of " + options_.topology;
}

std::vector<select::Candidate> Scene::candidates() const {
  return select::priced_candidates(collective_, block_, setting_.setting);
}

sim::Call Scene::call_of(const plan::Algorithm& algorithm) const {
  const select::Setting& setting = setting_.setting;
  const bool gpus = machine_->gpus();
  const comm::CallSpec spec = spec_of(collective_, block_);
  const comm::AgreedCapabilities agreed{.staging = setting.staging,
                                        .message = setting.message,
                                        .reading = transports::ReadAccess::Cma,
                                        .oversubscribed = setting.oversubscription > 1,
                                        .shifts = shifts_};
  sim::Call call{.algorithm = &algorithm, .shape = {collective_, setting.ranks, setting.groups}, .hosts = hosts_};
  exec::DeliveryRules rules;
  if (!gpus) {
    rules = comm::delivery_rules_for(spec, setting.ranks, agreed);
    rules.cooperative_from = setting.oversubscription > 1 ? link::kNever : comm::cooperative_from(agreed);
    call.near = {.cma = true, .cooperative = true};
  }
  const uint64_t block = spec.count * kElement;
  uint64_t window = std::max(kGrain, select::window_bytes(algorithm, setting));
  const bool read = !gpus && rules.cma_from != link::kNever && algorithm.lends && block >= comm::zcopy_from(agreed);
  if (read) window = std::max(window, machine_constants().zcopy_longest);
  // Windows of about the same length, and as many as there are replicas.
  const uint64_t parts = std::clamp<uint64_t>(block / machine_constants().block_per_thread, 1, options_.width);
  const uint64_t width = gpus ? parts : 1;
  if (width > 1) window = std::min(window, block / width);
  if (block > window) {
    const uint64_t rounds = (block + window - 1) / window;
    window = ((block + rounds - 1) / rounds + kGrain - 1) / kGrain * kGrain;
  }
  call.geometry = {.count = spec.count,
                   .window = std::max<uint64_t>(1, window / kElement),
                   .element_bytes = kElement,
                   .width = static_cast<uint32_t>(width),
                   .rules = rules};
  return call;
}

}  // namespace tutti::tools
