#include "sim/machine.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "topo/host_figures.hpp"
#include "topo/link_figures.hpp"

namespace tutti::sim {
namespace {

using topo::Graph;
using topo::kNoNode;
using topo::Link;
using topo::NodeId;
using topo::NodeKind;
using topo::Path;

/// Two resources a link: from a to b, and from b to a.
uint32_t way(uint32_t link, bool from_b) { return 2 * link + (from_b ? 1 : 0); }

}  // namespace

double processor_seconds(const WorkCosts& costs, const Work& work) {
  const auto bytes = static_cast<double>(work.bytes);
  const auto arrivals = static_cast<double>(work.arrivals.end - work.arrivals.begin);
  // Reading a message writes the result once; without one, the rank's own memory is copied.
  const double first = arrivals == 0 && work.writes > 0 ? costs.write : 0;
  const double second = work.writes > 1 ? costs.second : 0;
  const double folds = work.folds ? arrivals + work.local - 1 : 0;
  const double own = (work.writes > 0 ? work.local * costs.load : 0) + (work.stores ? costs.store : 0);
  return bytes * (first + second + folds * costs.fold + own);
}

Machine::Machine(const Graph& graph, std::vector<NodeId> nodes, const WorkCosts& costs)
    : nodes_(std::move(nodes)), costs_(costs) {
  std::map<NodeId, uint32_t> cores;
  gpus_ = !nodes_.empty() && graph.nodes[nodes_.front()].kind == NodeKind::Gpu;
  for (const NodeId node : nodes_) {
    if ((graph.nodes[node].kind == NodeKind::Gpu) != gpus_) {
      throw_error(Code::InvalidArgument, "some ranks are on GPUs and others on cores; a simulation has one kind");
    }
    core_.push_back(cores.emplace(node, static_cast<uint32_t>(cores.size())).first->second);
    host_nodes_.push_back(graph.host_of(node));
  }
  cores_ = static_cast<uint32_t>(cores.size());
  add_links(graph);
  take_hosts(graph);
  add_pairs(graph);
  if (!gpus_) add_memories(graph);
  const size_t first = resources_.size();
  if (!gpus_) resources_.resize(first + cores_);
  for (const auto& [node, core] : cores) {
    // Its copying, by which whatever it reads is limited.
    if (!gpus_) resources_[first + core] = {label(graph, node) + " copying", 1 / costs_.copy};
  }
}

Machine::Machine(Rank ranks, Rank cores, const WorkCosts& costs) : costs_(costs) {
  cores_ = static_cast<uint32_t>(std::min(ranks, cores));
  for (Rank rank = 0; rank < ranks; ++rank) {
    core_.push_back(static_cast<uint32_t>(int64_t{rank} * cores_ / ranks));
  }
  for (uint32_t core = 0; core < cores_; ++core) {
    resources_.push_back({fmt::format("core {} copying", core), 1 / costs_.copy});
  }
}

void Machine::add_links(const Graph& graph) {
  const bool hosts = graph.all(NodeKind::Host).size() > 1;
  for (const Link& link : graph.links) {
    const NodeId end = graph.nodes[link.a].kind == NodeKind::Fabric ? link.b : link.a;
    const std::string where = hosts ? label(graph, graph.host_of(end)) + ": " : "";
    const std::string a = label(graph, link.a), b = label(graph, link.b);
    resources_.push_back({fmt::format("{}{} > {}", where, a, b), link.gbps * 1e9});
    resources_.push_back({fmt::format("{}{} > {}", where, b, a), link.gbps * 1e9});
  }
}

/// What a job knows of two hosts: messages between them share it by NIC, beside the links on their way.
void Machine::add_pairs(const Graph& graph) {
  const topo::HostFigures figures(graph);
  if (figures.empty()) return;
  take_nics(graph);
  std::map<NodeId, std::set<NodeId>> nics;  // by host, those that its ranks use
  for (size_t rank = 0; rank < nics_.size(); ++rank) nics[host_nodes_[rank]].insert(nics_[rank]);
  const auto name = [&](NodeId host, NodeId nic) {
    return nics[host].size() == 1 ? label(graph, host) : fmt::format("{} {}", label(graph, host), label(graph, nic));
  };
  const auto add = [&](topo::SharedFigure shared, const std::string& from, const std::string& to, double gbps) {
    pairs_[shared] = static_cast<uint32_t>(resources_.size());
    resources_.push_back({fmt::format("{} > {}", from, to), gbps * 1e9});
  };
  for (const auto& [from, leaving] : nics) {
    for (const auto& [to, entering] : nics) {
      const topo::Figure* const figure = from == to ? nullptr : figures.of(from, to);
      if (figure == nullptr || figure->gbps <= 0) continue;
      for (const NodeId nic : leaving) add({nic, to}, name(from, nic), label(graph, to), figure->gbps);
      for (const NodeId nic : entering) add({from, nic}, label(graph, from), name(to, nic), figure->gbps);
    }
  }
}

/// By rank: the NIC by which its messages leave its host and come to it; where none is known, the host.
void Machine::take_nics(const Graph& graph) {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    nics_.push_back(host_nodes_[r]);
    if (hosts_[host_[r]]->fabric == kNoNode) continue;
    for (const uint32_t resource : ways_out(rank).first.resources) {
      const Link& link = graph.links[resource / 2];
      for (const NodeId end : {link.a, link.b}) {
        if (graph.nodes[end].kind == NodeKind::Nic) nics_.back() = end;
      }
    }
  }
}

/// One for each package that ranks are on: all its channels together, as if its ranks' buffers were spread over them.
void Machine::add_memories(const Graph& graph) {
  std::map<NodeId, uint32_t> known;
  for (const NodeId node : nodes_) {
    NodeId package = graph.enclosing(node, NodeKind::Package);
    if (package == kNoNode) package = graph.host_of(node);
    const auto [at, is_new] = known.emplace(package, static_cast<uint32_t>(resources_.size()));
    if (is_new) resources_.push_back({"memory of " + label(graph, package), topo::figures::memory.gbps * 1e9});
    memory_.push_back(at->second);
  }
}

void Machine::take_hosts(const Graph& graph) {
  std::map<NodeId, uint32_t> numbers;
  std::vector<NodeId> host_of(graph.nodes.size());
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    const topo::Node& node = graph.nodes[i];
    host_of[i] = node.parent == kNoNode ? i : host_of[node.parent];
    if (node.kind == NodeKind::Fabric) {
      networks_.own[i] = networks_.graph.add({.kind = NodeKind::Fabric});
      continue;
    }
    const auto [at, is_new] = numbers.emplace(host_of[i], static_cast<uint32_t>(hosts_.size()));
    if (is_new) hosts_.push_back(std::make_unique<Host>());
    Host& host = *hosts_[at->second];
    topo::Node copy = node;
    if (copy.parent != kNoNode) copy.parent = host.own.at(copy.parent);
    host.own[i] = host.graph.add(std::move(copy));
  }
  const auto is_fabric = [&](NodeId node) { return graph.nodes[node].kind == NodeKind::Fabric; };
  for (uint32_t i = 0; i < graph.links.size(); ++i) {
    const Link& link = graph.links[i];
    const bool inner = is_fabric(link.a) && is_fabric(link.b);
    take_link(inner ? networks_ : *hosts_[numbers.at(host_of[is_fabric(link.a) ? link.b : link.a])], link, i, graph);
  }
  networks_.finder = std::make_unique<topo::PathFinder>(networks_.graph);
  for (const auto& host : hosts_) host->finder = std::make_unique<topo::PathFinder>(host->graph);
  for (const NodeId node : nodes_) host_.push_back(numbers.at(host_of[node]));
}

/// A link of a host, or one that joins networks.
void Machine::take_link(Host& host, Link link, uint32_t number, const Graph& graph) {
  for (NodeId* const end : {&link.a, &link.b}) {
    if (&host == &networks_ || graph.nodes[*end].kind != NodeKind::Fabric) {
      *end = host.own.at(*end);
      continue;
    }
    if (host.network != kNoNode && host.network != *end) {
      throw_error(Code::InvalidArgument, "a host has NICs in two networks; a simulation has hosts in one each");
    }
    if (host.network == kNoNode) host.fabric = host.graph.add({.kind = NodeKind::Fabric});
    host.network = *end;
    *end = host.fabric;
  }
  host.graph.connect(link);
  host.links.push_back(number);
}

Route Machine::route_of(const Host& host, const Path& path, NodeId from, bool backwards) const {
  Route route{.resources = {}, .seconds = path.us * 1e-6, .network = false};
  NodeId at = from;
  for (const uint32_t i : path.links) {
    const Link& link = host.graph.links[i];
    if (link.a != at && link.b != at) at = link.a;  // from one of several cores
    const bool from_b = link.b == at;
    route.resources.push_back(way(host.links[i], from_b != backwards));
    at = from_b ? link.a : link.b;
  }
  if (backwards) std::reverse(route.resources.begin(), route.resources.end());
  return route;
}

Route Machine::inside(Rank from, Rank to) const {
  const auto f = static_cast<size_t>(from), t = static_cast<size_t>(to);
  const Host& host = *hosts_[host_[f]];
  const NodeId a = host.own.at(nodes_[f]), b = host.own.at(nodes_[t]);
  const Path path = host.finder->between(a, b);
  if (path.kind == topo::PathKind::None) {
    throw_error(Code::InvalidArgument, "the topology has no path from rank {} to rank {}", from, to);
  }
  return route_of(host, path, a, false);
}

const std::pair<Route, Route>& Machine::ways_out(Rank rank) {
  const auto known = out_.find(rank);
  if (known != out_.end()) return known->second;
  const auto r = static_cast<size_t>(rank);
  const Host& host = *hosts_[host_[r]];
  const NodeId node = host.own.at(nodes_[r]);
  const Path path = host.fabric == kNoNode ? Path{} : host.finder->between(node, host.fabric);
  if (path.kind == topo::PathKind::None) {
    throw_error(Code::InvalidArgument, "the topology has no path from rank {} to other hosts; does it have a NIC?",
                rank);
  }
  return out_[rank] = {route_of(host, path, node, false), route_of(host, path, node, true)};
}

/// From one host's network to another's.
Route Machine::across(const Host& from, const Host& to) const {
  if (from.network == to.network) return {};
  const NodeId a = networks_.own.at(from.network), b = networks_.own.at(to.network);
  const Path path = networks_.finder->between(a, b);
  if (path.kind == topo::PathKind::None) {
    throw_error(Code::InvalidArgument, "the topology has no link between the networks of two hosts");
  }
  return route_of(networks_, path, a, false);
}

Route Machine::between(Rank from, Rank to) {
  Route route = ways_out(from).first;
  const Route& down = ways_out(to).second;
  const auto host = [&](Rank rank) -> const Host& { return *hosts_[host_[static_cast<size_t>(rank)]]; };
  for (const Route& next : {across(host(from), host(to)), down}) {
    route.resources.insert(route.resources.end(), next.resources.begin(), next.resources.end());
    route.seconds += next.seconds;
  }
  if (!pairs_.empty()) {
    const auto f = static_cast<size_t>(from), t = static_cast<size_t>(to);
    for (const topo::SharedFigure& shared :
         topo::shared_figures(host_nodes_[f], host_nodes_[t], {nics_[f], nics_[t]})) {
      const auto pair = pairs_.find(shared);
      if (pair != pairs_.end()) route.resources.push_back(pair->second);
    }
  }
  route.network = true;
  return route;
}

const Route& Machine::route(Rank from, Rank to) {
  const auto known = routes_.find({from, to});
  if (known != routes_.end()) return known->second;
  const auto f = static_cast<size_t>(from), t = static_cast<size_t>(to);
  Route route;
  if (!hosts_.empty()) route = host_[f] == host_[t] ? inside(from, to) : between(from, to);
  route.seconds += costs_.software;
  route.busy = route.seconds * costs_.message_share;
  // The reader copies what is in its own host; what came over the network lies there already.
  if (!gpus_ && !route.network) route.resources.push_back(static_cast<uint32_t>(resources_.size()) - cores_ + core_[t]);
  return routes_[{from, to}] = std::move(route);
}

}  // namespace tutti::sim
