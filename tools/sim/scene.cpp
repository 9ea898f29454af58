#include "tools/sim/scene.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/calibration.hpp"
#include "select/deliveries.hpp"
#include "select/entries.hpp"
#include "select/job.hpp"
#include "select/links_alone.hpp"
#include "select/synthesis.hpp"
#include "tools/machine_options.hpp"
#include "tools/sim/core_costs.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti::tools {
namespace {

// Of a rank's call, beside its messages: it is checked and numbered, and its program found. Measured on an AMD EPYC of
// 2.6 GHz; of this machine call_seconds() knows more.
constexpr double kCall = 90e-9;  // seconds
constexpr uint64_t kGpuStaging = 128 << 20, kGpuMessage = 1 << 20;

/// Of ranks on cores, by the figures in use. shm_beta is that of both copies of a message, its writer's and its
/// reader's.
sim::WorkCosts costs_of_cores() {
  const MachineConstants& known = machine_constants();
  const double copy = known.shm_beta / 2;
  return {.call = kCall,
          .software = known.shm_alpha,
          .message_share = known.message_share,
          .copy = copy,
          .write = copy,
          .second = copy,
          .fold = known.fold_gamma,
          .context_switch = known.context_switch};
}

constexpr uint32_t kElement = 4;

/// The last caches of a host.
struct LastCaches {
  uint64_t share = 0;  ///< bytes of one for each of its ranks, at least; 0: unknown
  uint64_t used = 1;   ///< by the ranks of the first host
};

LastCaches caches_of(const topo::Graph& graph, const select::RankNodes& places) {
  std::map<topo::NodeId, uint64_t> ranks;  // by cache
  std::set<topo::NodeId> of_first;
  for (size_t rank = 0; rank < places.nodes.size(); ++rank) {
    const topo::NodeId at = graph.enclosing(places.nodes[rank], topo::NodeKind::Complex);
    if (at == topo::kNoNode) return {};
    ++ranks[at];
    if (places.hosts[rank] == places.hosts.front()) of_first.insert(at);
  }
  LastCaches caches{.share = ~uint64_t{0}, .used = of_first.size()};
  for (const auto& [complex, users] : ranks) caches.share = std::min(caches.share, graph.nodes[complex].bytes / users);
  return caches;
}

/// What a call touches: the largest rank's input and output.
Footprint footprint_of(Collective collective, uint64_t block, Rank ranks, Rank cores, bool streams) {
  const auto most = [&](plan::Buffer buffer) {
    const auto blocks =
        std::max(plan::blocks(collective, ranks, buffer, 0), plan::blocks(collective, ranks, buffer, 1));
    return static_cast<uint64_t>(blocks) * block;
  };
  return {.in = most(plan::Buffer::Input),
          .out = most(plan::Buffer::Output),
          .streams = streams,
          .ranks = ranks,
          .cores = std::min(ranks, cores)};
}

}  // namespace

void add_engine(CLI::App& command, std::string& engine) {
  command
      .add_option("--engine", engine,
                  "the network: fast (equal shares), fair (max-min fair), or simgrid (the same, and slower)")
      ->check(CLI::IsMember({"fast", "fair", "simgrid"}));
}

sim::SimulateOptions effort_of(const std::string& engine) {
  if (engine == "simgrid") return {.engine = sim::Engine::SimGrid, .max_work = 1U << 17};
  if (engine == "fair") return {.engine = sim::Engine::Fair, .max_work = 1U << 19};
  return {};
}

std::string time_text(double seconds) {
  const double us = seconds * 1e6;
  return us < 10 ? fmt::format("{:.2f}", us) : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

Scene::Scene(Collective collective, uint64_t bytes, const SceneOptions& options)
    : collective_(collective), bytes_(bytes), block_(bytes), options_(options) {
  options_.topology.empty() ? take_this_machine() : take_topology();
  block_ = select::block_bytes(collective, bytes, ranks());
  inputs_.inputs.root = options_.root;
}

void Scene::take_topology() {
  const topo::Graph graph = options_.graph != nullptr
                                ? *options_.graph
                                : topology_from(options_.topology, options_.nvlink, options_.hosts, options_.without);
  inputs_ = select::inputs_of(graph, options_.ranks);
  const select::RankNodes placed = select::place_ranks(graph, options_.ranks);
  hosts_.assign(placed.hosts.begin(), placed.hosts.end());
  check_root(options_.root, collective_, ranks());
  // What an executor of GPUs would take: NCCL's buffers have 4 MiB for each of some 16 to 32 channels.
  if (inputs_.notes.ends == "GPUs") {
    if (!env().arena) inputs_.inputs.staging = kGpuStaging;
    inputs_.inputs.message = std::max(inputs_.inputs.message, kGpuMessage);
    inputs_.inputs.max_width = options_.width;
    inputs_.inputs.methods.resize(1);  // the machine tells no forms of messages apart
  }
  const bool gpus = graph.nodes[placed.nodes.front()].kind == topo::NodeKind::Gpu;
  sim::WorkCosts costs = costs_of_cores();
  if (gpus) costs = {.message_share = ranks() > 1 ? inputs_.inputs.inside.message / inputs_.inputs.inside.alpha : 0};
  const LastCaches caches = gpus ? LastCaches{} : caches_of(graph, placed);
  if (caches.share > 0) {
    const Rank near = (ranks() + hosts() - 1) / hosts();
    const uint64_t block = select::block_bytes(collective_, bytes_, ranks());
    const bool streams = select::is_nontemporal(collective_, block, ranks(), near, false, caches.used);
    take_memory(caches.share, footprint_of(collective_, block, ranks(), ranks(), streams), costs);
  }
  machine_ = std::make_unique<sim::Machine>(graph, placed.nodes, costs);
  select::add_bound(graph, placed.nodes, collective_, options_.root, inputs_.inputs);
  for (std::string& text : select::unused_demands(inputs_.inputs, collective_)) {
    inputs_.notes.unknown.push_back(std::move(text));
  }
}

void Scene::take_this_machine() {
  check_has_topology(options_.nvlink, options_.without);
  if (options_.hosts > 1) {
    throw_error(Code::InvalidArgument, "--hosts {}: give the hosts' topology too, by --topo (`tutti topo --json FILE`)",
                options_.hosts);
  }
  // What was measured of this machine, in place of the table's figures.
  const bool tuned = select::has_host_profile();
  const select::Calibration* const measured = tuned ? nullptr : select::local_calibration();
  const Rank ranks = options_.ranks > 0 ? options_.ranks : 2;
  inputs_ = select::inputs_as_run(ranks, 1);
  const auto cores = static_cast<Rank>(allowed_cores().size());
  hosts_.assign(static_cast<size_t>(ranks), 0);
  check_root(options_.root, collective_, ranks);
  sim::WorkCosts costs = costs_of_cores();
  if (measured != nullptr) {
    costs.call = call_seconds().value_or(costs.call);
    const uint64_t block = select::block_bytes(collective_, bytes_, ranks);
    const bool streams = select::is_nontemporal(collective_, block, ranks, ranks, false);
    refine(*measured, footprint_of(collective_, block, ranks, cores, streams), costs);
  }
  machine_ = std::make_unique<sim::Machine>(ranks, cores, costs);
  const topo::Graph graph = select::graph_as_run(ranks, 1);
  select::add_bound(graph, graph.ranks, collective_, options_.root, inputs_.inputs);
}

std::string Scene::words() const {
  std::string text = counted(static_cast<uint64_t>(ranks()), "rank");
  if (hosts() > 1) text += " of " + counted(static_cast<uint64_t>(hosts()), "host");
  if (options_.topology.empty()) return text + ", this machine";
  text += ", on the " + inputs_.notes.ends + " of " + options_.topology;
  for (const std::string& part : options_.without)
    text += (&part == options_.without.data() ? " without " : ", ") + part;
  return text;
}

std::vector<select::Candidate> Scene::candidates() const {
  return select::priced_candidates(collective_, block_, inputs_.inputs);
}

std::optional<double> Scene::links_alone(const select::Candidate& candidate) const {
  return select::links_alone(candidate, block_, inputs_.inputs);
}

select::Candidate Scene::made(const plan::Algorithm& algorithm) const {
  select::CostInputs inputs = inputs_.inputs;
  inputs.order = {};
  inputs.own_orders.clear();
  inputs.forced.clear();
  inputs.given = {{collective_, &algorithm}};
  select::Candidate first = select::priced_candidates(collective_, block_, inputs).front();
  if (first.rejected.empty()) return first;
  throw_error(Code::Unsupported, "{} cannot run: {}", algorithm.name, first.rejected);
}

sim::Call Scene::call_of(const select::Candidate& candidate, const plan::RankOrder& order) const {
  const select::CostInputs& inputs = inputs_.inputs;
  const select::Row& row = candidate.row;
  sim::Call call{.algorithm = row.algorithm,
                 .shape = {collective_, inputs.ranks, order.seen(inputs.groups, options_.root)},
                 .hosts = hosts_};
  if (!machine_->gpus()) call.near = {.cma = true, .cooperative = true};
  const uint64_t count = std::max<uint64_t>(1, block_ / kElement);
  call.geometry = {.count = count,
                   .window = std::max<uint64_t>(1, select::window_for(row, count * kElement) / kElement),
                   .element_bytes = kElement,
                   .width = row.width,
                   .root = options_.root,
                   .order = order,
                   .method = row.method,
                   .rules = row.deliveries};
  return call;
}

}  // namespace tutti::tools
