#include "select/job.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"
#include "select/network.hpp"
#include "select/profile.hpp"
#include "topo/cgroup.hpp"
#include "topo/cluster.hpp"
#include "topo/constants.hpp"
#include "topo/detect.hpp"
#include "topo/machine.hpp"

namespace tutti::select {
namespace {

using topo::Figure;

Figure figure_of(Figure::Between between, const LinkCost& cost, const char* transport) {
  const bool hosts = between == Figure::Between::Hosts;
  return {.between = between,
          .us = cost.alpha * 1e6,
          .gbps = 1e-9 / cost.beta,
          .most = hosts ? 0 : most_inside(),
          .in_place = cost.in_place,
          .transport = transport,
          .origin = origin_of_figures(transport, hosts ? transport : "processes", hosts)};
}

/// The cores that processes started here may use; of another machine that is described, all.
std::vector<Cores> cores_of(const topo::Graph& host) {
  const Machine machine = read_machine();
  if (machine.is_this_one) return cores_within(machine, allowed_cores());
  std::vector<Cores> cores;
  for (const topo::NodeId core : host.all(topo::NodeKind::Core)) cores.push_back(host.nodes[core].processors);
  return cores;
}

/// `hosts` such machines with their ranks, each on the core that it is bound to, out of each machine's `cores`.
topo::Graph placed(const topo::Graph& host, const std::vector<Cores>& cores, Rank ranks, Rank hosts) {
  std::vector<topo::RankPlace> places;
  for (Rank number = 0; number < hosts; ++number) {
    const auto here = static_cast<size_t>(int64_t{ranks} * (number + 1) / hosts - int64_t{ranks} * number / hosts);
    const bool bound = here > 1 && here <= cores.size();
    for (size_t rank = 0; rank < here; ++rank) {
      places.push_back({static_cast<uint32_t>(number), bound ? cores[rank] : host.nodes.front().processors});
    }
  }
  std::vector<topo::Graph> parts(static_cast<size_t>(hosts), host);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].nodes.front().name += hosts > 1 ? fmt::format(" {}", i) : "";
  return topo::merge_ranks(parts, places);
}

}  // namespace

std::string origin_of_figures(const std::string& transport, const std::string& kind, bool between_hosts) {
  const auto profile = local_profile();
  if (profile != nullptr && (profile->links.contains(transport) || profile->links.contains(kind))) return kMeasured;
  if (!between_hosts && !has_host_profile() && local_calibration() != nullptr) return "the quick calibration";
  return "the library's constants, not measured here";
}

double most_inside() {
  constexpr double kEnds = 2;
  const Calibration* const measured = has_host_profile() ? nullptr : local_calibration();
  return measured == nullptr ? 0 : kEnds * fastest_copy(*measured) * 1e-9;
}

std::map<std::string, double> facts_of(const CostInputs& inputs) {
  const HandOver& over = inputs.hand_over;
  return {{facts::kGamma, inputs.gamma},
          {facts::kContextSwitch, machine_constants().context_switch},
          {facts::kOversubscription, inputs.oversubscription},
          {facts::kStaging, static_cast<double>(inputs.staging)},
          {facts::kMessage, static_cast<double>(inputs.message)},
          {facts::kWidth, inputs.max_width},
          {facts::kReading, static_cast<double>(over.reading)},
          {facts::kSharesCores, over.shares_cores ? 1 : 0},
          {facts::kAlwaysCma, over.always_cma ? 1 : 0},
          {facts::kShiftCma, over.shifts.cma},
          {facts::kNoCma, over.shifts.no_cma ? 1 : 0},
          {facts::kNoCmaFolds, over.shifts.no_cma_folds ? 1 : 0},
          {facts::kShiftWait, over.shifts.wait},
          {facts::kShiftCaches, over.shifts.caches}};
}

topo::Graph graph_as_run(Rank ranks, Rank hosts) {
  CostInputs inputs = inputs_here(ranks, hosts).inputs;
  topo::Graph graph;
  double cores = std::min(static_cast<double>(allowed_cores().size()), core_quota());
  try {
    const topo::Graph& host = topo::kept_topology();
    const std::vector<Cores> of_host = cores_of(host);
    if (!read_machine().is_this_one) cores = static_cast<double>(of_host.size());
    graph = placed(host, of_host, ranks, hosts);
  } catch (const Error& error) {
    log_debug("this machine cannot be described: {}", error.what());
  }
  const Rank most_of_a_host = (ranks + hosts - 1) / hosts;
  inputs.oversubscription = std::max(1.0, most_of_a_host / std::max(cores, 1e-3));
  inputs.hand_over.shares_cores = inputs.oversubscription > 1;
  graph.facts = facts_of(inputs);
  if (graph.ranks.empty()) return graph;
  const MachineConstants& all = machine_constants();
  const LinkCost inside{all.shm_alpha, all.shm_beta, 0, true}, between{all.tcp_alpha, all.tcp_beta, 0, false};
  graph.figures.push_back(figure_of(Figure::Between::Processes, inside, "shm"));
  if (hosts > 1) graph.figures.push_back(figure_of(Figure::Between::Hosts, between, "tcp"));
  return graph;
}

MachineInputs inputs_as_run(Rank ranks, Rank hosts) {
  const topo::Graph graph = graph_as_run(ranks, hosts);
  if (!graph.ranks.empty()) return inputs_of(graph, 0);
  MachineInputs known = inputs_here(ranks, hosts);
  CostInputs& inputs = known.inputs;
  inputs.oversubscription = graph.facts.at(facts::kOversubscription);
  inputs.hand_over.shares_cores = inputs.oversubscription > 1;
  return known;
}

}  // namespace tutti::select
