#include "select/machine.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/select.hpp"
#include "topo/constants.hpp"
#include "topo/paths.hpp"

namespace tutti::select {
namespace {

using topo::Graph;
using topo::NodeId;
using topo::NodeKind;
using topo::Path;

constexpr size_t kMostSources = 64;             // ranks whose paths are looked at
constexpr uint64_t kDefaultArena = 8ULL << 20;  // bytes, as TUTTI_ARENA's default

/// The GPUs of a host, else its cores.
std::vector<NodeId> ends_of(const Graph& graph, NodeId host) {
  std::vector<NodeId> gpus, cores;
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    const NodeKind kind = graph.nodes[i].kind;
    if (kind != NodeKind::Gpu && kind != NodeKind::Core) continue;
    if (graph.host_of(i) == host) (kind == NodeKind::Gpu ? gpus : cores).push_back(i);
  }
  if (gpus.empty() && cores.empty()) cores.push_back(host);
  return gpus.empty() ? cores : gpus;
}

/// Ranks by host: where each is.
struct Placement {
  std::vector<std::vector<NodeId>> hosts;
  std::vector<Rank> labels;
};

Placement place(const Graph& graph, Rank ranks) {
  const std::vector<NodeId> hosts = graph.all(NodeKind::Host);
  if (hosts.empty()) throw_error(Code::InvalidArgument, "the topology has no host");
  std::vector<std::vector<NodeId>> ends;
  size_t all = 0;
  for (const NodeId host : hosts) all += ends.emplace_back(ends_of(graph, host)).size();
  const size_t wanted = ranks > 0 ? static_cast<size_t>(ranks) : all;
  if (wanted < hosts.size()) {
    throw_error(Code::InvalidArgument, "{} are too few for {}; give at least one rank a host", counted(wanted, "rank"),
                counted(hosts.size(), "host"));
  }
  Placement placement;
  for (size_t host = 0; host < hosts.size(); ++host) {
    const size_t first = wanted * host / hosts.size(), last = wanted * (host + 1) / hosts.size();
    const size_t here = ranks > 0 ? last - first : ends[host].size();
    auto& mine = placement.hosts.emplace_back();
    // Fewer ranks than ends: spread, as `tutti run` binds them. GPUs are given out in order.
    const bool gpus = graph.nodes[ends[host].front()].kind == NodeKind::Gpu;
    for (size_t i = 0; i < here; ++i) {
      const size_t at = gpus || here > ends[host].size() ? i % ends[host].size() : i * ends[host].size() / here;
      mine.push_back(ends[host][at]);
      placement.labels.push_back(static_cast<Rank>(host));
    }
  }
  return placement;
}

/// What the paths of ranks that send at the same time cost.
class Load {
 public:
  explicit Load(const Graph& graph) : graph_(graph) {}

  void add(NodeId from, const Path& path) {
    NodeId at = from;
    for (const uint32_t i : path.links) {
      const topo::Link& link = graph_.links[i];
      ++flows_[{i, link.a == at}];
      at = link.a == at ? link.b : link.a;
    }
  }
  /// Seconds for a byte of each flow through the most contended link.
  double beta() const {
    double most = 0;
    for (const auto& [way, flows] : flows_) most = std::max(most, flows / (graph_.links[way.first].gbps * 1e9));
    return most;
  }
  /// Of ports out of this host: how many are used, and the most flows of one.
  std::pair<uint32_t, double> ports_of(NodeId host) const {
    std::set<NodeId> nics;
    double most = 1;
    for (const auto& [way, flows] : flows_) {
      const topo::Link& link = graph_.links[way.first];
      if (link.kind != topo::LinkKind::Network) continue;
      const NodeId nic = graph_.nodes[link.a].kind == NodeKind::Nic ? link.a : link.b;
      if (graph_.host_of(nic) != host) continue;
      nics.insert(nic);
      most = std::max(most, flows);
    }
    return {static_cast<uint32_t>(nics.size()), most};
  }

 private:
  const Graph& graph_;
  std::map<std::pair<uint32_t, bool>, double> flows_;  // by link and direction
};

/// The slowest of some paths.
struct Slowest {
  double alpha = 0, beta = 0;
  topo::PathKind kind = topo::PathKind::SameCore;

  void take(const Path& path) {
    if (path.kind == topo::PathKind::None) {
      throw_error(Code::InvalidArgument, "the topology has no path between two of the ranks; does it have a NIC?");
    }
    alpha = std::max(alpha, path.us * 1e-6);
    beta = std::max(beta, 1 / (path.gbps * 1e9));
    kind = std::max(kind, path.kind);
  }
};

LinkCost cost_of(const Slowest& slowest, double contended, bool in_place) {
  const double beta = std::max(slowest.beta, contended);
  return {slowest.alpha, beta, slowest.alpha * machine_constants().message_share, in_place};
}

void look_inside(const Graph& graph, const topo::PathFinder& finder, const std::vector<NodeId>& ends, Slowest& slowest,
                 double& contended) {
  Load load(graph);
  for (size_t i = 0; i < ends.size() && ends.size() > 1; ++i) {
    const std::vector<Path> paths = finder.from(ends[i], ends);
    for (size_t to = 0; to < ends.size(); ++to) {
      if (to != i) slowest.take(paths[to]);
    }
    load.add(ends[i], paths[(i + 1) % ends.size()]);
  }
  contended = std::max(contended, load.beta());
}

void look_between(const Graph& graph, const topo::PathFinder& finder, const std::vector<NodeId>& ends,
                  const std::vector<NodeId>& next, Slowest& slowest, double& contended, MachineNotes& notes) {
  Load load(graph);
  for (size_t i = 0; i < ends.size(); ++i) {
    const Path path = finder.between(ends[i], next[i % next.size()]);
    slowest.take(path);
    load.add(ends[i], path);
  }
  contended = std::max(contended, load.beta());
  const auto [rails, sharing] = load.ports_of(graph.host_of(ends.front()));
  notes.rails = notes.rails == 0 ? rails : std::min(notes.rails, rails);
  notes.sharing = std::max(notes.sharing, sharing);
}

Setting common_setting(const std::vector<Rank>& labels) {
  const auto ranks = static_cast<Rank>(labels.size());
  Setting setting{.ranks = ranks,
                  .groups = std::make_shared<const plan::Grouping>(labels),
                  .gamma = machine_constants().fold_gamma,
                  .staging = env().arena.value_or(Bytes{kDefaultArena}),
                  .message = env().message.value,
                  .reproducible = env().reproducible,
                  .forced = parse_forced(env().algorithm),
                  .given = given_plans(env().plan, ranks)};
  return setting;
}

}  // namespace

RankNodes place_ranks(const Graph& graph, Rank ranks) {
  const Placement placement = place(graph, ranks);
  RankNodes all{.nodes = {}, .hosts = placement.labels};
  for (const auto& host : placement.hosts) all.nodes.insert(all.nodes.end(), host.begin(), host.end());
  return all;
}

MachineSetting setting_of(const Graph& graph, Rank ranks) {
  const Placement placement = place(graph, ranks);
  const topo::PathFinder finder(graph);
  MachineSetting made{.setting = common_setting(placement.labels), .notes = {}};
  Slowest inside, between;
  double contended_inside = 0, contended_between = 0;
  const size_t hosts = placement.hosts.size();
  size_t sources = 0;
  for (size_t host = 0; host < hosts && sources < kMostSources; ++host) {
    const std::vector<NodeId>& ends = placement.hosts[host];
    sources += ends.size();
    look_inside(graph, finder, ends, inside, contended_inside);
    if (hosts == 1) continue;
    look_between(graph, finder, ends, placement.hosts[(host + 1) % hosts], between, contended_between, made.notes);
  }
  const bool gpus = graph.nodes[placement.hosts.front().front()].kind == NodeKind::Gpu;
  if (gpus) made.setting.gamma = 0;
  // A cache line's way is a part only of what a message between processes takes.
  if (!gpus) inside.alpha += machine_constants().shm_alpha;
  made.setting.inside = cost_of(inside, contended_inside, !gpus);
  made.setting.between = cost_of(between, contended_between, false);
  if (hosts > 1 && !made.setting.groups->has_two_levels()) made.setting.inside = made.setting.between;
  made.notes.ends = gpus ? "GPUs" : "cores";
  made.notes.hosts = static_cast<Rank>(hosts);
  made.notes.inside = name_of(inside.kind);
  made.notes.between = name_of(between.kind);
  made.notes.unknown = graph.notes;
  return made;
}

MachineSetting setting_here(Rank ranks, Rank hosts) {
  std::vector<Rank> labels;
  for (Rank rank = 0; rank < ranks; ++rank) labels.push_back(static_cast<Rank>(int64_t{rank} * hosts / ranks));
  MachineSetting made{.setting = common_setting(labels), .notes = {.ends = "cores", .hosts = hosts}};
  const MachineConstants& known = machine_constants();
  const auto link = [&](double alpha, double beta, bool in_place) {
    return LinkCost{alpha, beta, alpha * known.message_share, in_place};
  };
  made.setting.inside = link(known.shm_alpha, known.shm_beta, true);
  made.setting.between = link(known.tcp_alpha, known.tcp_beta, false);
  if (hosts > 1 && !made.setting.groups->has_two_levels()) made.setting.inside = made.setting.between;
  made.notes.inside = "shared memory";
  made.notes.between = "TCP";
  return made;
}

}  // namespace tutti::select
