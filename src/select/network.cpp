#include "select/network.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/format.hpp"
#include "topo/processors.hpp"

namespace tutti::select {
namespace {

using topo::Figure;
using topo::Graph;
using topo::LinkKind;
using topo::NodeId;
using topo::NodeKind;

// Ratios by which measurements of equal links differ. An empty message takes several times as long where the kernel has
// put its two processes on one core, or has to wake one.
constexpr double kAlikeBeta = 1.2, kAlikeAlpha = 16;
constexpr double kExplained = 1.5;     // of a pair's time a byte, by that of the slowest link on its way
constexpr double kSeveral = 1.25;      // of what a host reaches with all others at once, beside its fastest pair
constexpr double kUnknownGbps = 1000;  // of what joins a NIC that detection has not found to its host

/// Values within `ratio` of each other become that of the middle one. Returns the least of each one's, by value.
std::vector<double> level(const std::vector<double*>& values, double ratio) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return *values[a] < *values[b]; });
  std::vector<double> least(values.size());
  for (size_t first = 0; first < order.size();) {
    const double fastest = *values[order[first]];
    size_t end = first + 1;
    while (end < order.size() && *values[order[end]] <= ratio * fastest) ++end;
    const double middle = *values[order[(first + end - 1) / 2]];
    for (; first < end; ++first) {
      least[order[first]] = fastest;
      *values[order[first]] = middle;
    }
  }
  return least;
}

double gbps(double beta) { return 1e-9 / beta; }

class Network {
 public:
  Network(Graph& graph, const MeasuredHosts& measured) : graph_(graph), measured_(measured) {
    for (const NodeId host : graph.all(NodeKind::Host)) {
      const auto [at, is_new] = hosts_.emplace(graph.nodes[host].name, host);
      if (!is_new) at->second = topo::kNoNode;
    }
  }

  void add() {
    const auto general = std::find_if(graph_.figures.begin(), graph_.figures.end(), [](const Figure& figure) {
      return figure.between == Figure::Between::Hosts && figure.a == topo::kNoNode;
    });
    const std::vector<NodeId> fabrics = graph_.all(NodeKind::Fabric);
    if (general == graph_.figures.end() || fabrics.size() != 1) return;
    if (general->transport != measured_.transport) return;
    take_rates();
    find_cabled();
    add_pairs(Figure(*general));
    add_links(fabrics.front());
    add_islands(fabrics.front());
  }

 private:
  /// kNoNode: the job has no such host, or two.
  NodeId host(const std::string& name) const {
    const auto found = hosts_.find(name);
    return found == hosts_.end() ? topo::kNoNode : found->second;
  }

  /// Of hosts' links, on which all of a host's messages are.
  void take_rates() {
    for (const auto& [name, beta] : measured_.links) {
      if (host(name) != topo::kNoNode) betas_[host(name)] = beta;
    }
    std::vector<double*> betas;
    for (auto& [node, beta] : betas_) betas.push_back(&beta);
    const std::vector<double> least = level(betas, kAlikeBeta);
    size_t i = 0;
    for (const auto& [node, beta] : betas_) least_[node] = least[i++];
  }

  /// Of the slowest link on a pair's way; 0: unknown.
  double beta_between(const MeasuredPair& pair) const {
    const auto link = [&](const std::string& name) {
      const auto known = betas_.find(host(name));
      return known == betas_.end() ? 0 : known->second;
    };
    double slowest = std::max(link(pair.a), link(pair.b));
    for (const MeasuredIsland& island : measured_.islands) {
      const auto is_in = [&](const std::string& name) { return std::ranges::count(island.hosts, name) > 0; };
      if (is_in(pair.a) != is_in(pair.b)) slowest = std::max(slowest, island.beta);
    }
    return slowest;
  }

  /// Hosts that reach more with all others at once than with any one: several cables lead to them.
  void find_cabled() {
    std::map<NodeId, double> fastest;
    for (const MeasuredPair& pair : measured_.pairs) {
      if (host(pair.a) == topo::kNoNode || host(pair.b) == topo::kNoNode) continue;  // another job's
      for (const std::string& name : {pair.a, pair.b}) {
        double& beta = fastest.emplace(host(name), pair.beta).first->second;
        beta = std::min(beta, pair.beta);
      }
    }
    for (const auto& [node, beta] : betas_) {
      if (fastest.contains(node) && fastest[node] >= kSeveral * beta) cabled_.insert(node);
    }
  }

  /// A pair has a rate of its own only if it is slower than the links on its way, and much slower unless several cables
  /// lead to a host: else the difference is noise.
  void add_pairs(Figure figure) {
    std::vector<MeasuredPair> pairs;
    for (MeasuredPair pair : measured_.pairs) {
      if (host(pair.a) == topo::kNoNode || host(pair.b) == topo::kNoNode) continue;
      const double of_links = beta_between(pair);
      const bool cabled = cabled_.contains(host(pair.a)) || cabled_.contains(host(pair.b));
      if (pair.beta < (cabled ? kAlikeBeta : kExplained) * of_links) pair.beta = of_links;
      pairs.push_back(std::move(pair));
    }
    std::vector<double*> alphas, betas;
    for (MeasuredPair& pair : pairs) alphas.push_back(&pair.alpha), betas.push_back(&pair.beta);
    level(alphas, kAlikeAlpha);
    const std::vector<double> least = level(betas, kAlikeBeta);
    take_sums(pairs);
    figure.origin = kMeasured;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const MeasuredPair& pair = pairs[i];
      figure.a = host(pair.a), figure.b = host(pair.b);
      figure.us = pair.alpha * 1e6, figure.gbps = gbps(pair.beta);
      figure.most = gbps(std::min(least[i], pair.beta));
      graph_.figures.push_back(figure);
    }
  }

  /// A host to which several cables lead, and which reaches with all others at once nearly what they add up to, reaches
  /// that: else the difference is noise.
  void take_sums(const std::vector<MeasuredPair>& pairs) {
    std::map<NodeId, double> rates;
    for (const MeasuredPair& pair : pairs) {
      for (const std::string& name : {pair.a, pair.b}) rates[host(name)] += 1 / pair.beta;
    }
    for (const NodeId node : cabled_) {
      double& beta = betas_[node];
      if (rates[node] * beta <= kAlikeBeta) beta = std::min(beta, 1 / rates[node]);
    }
  }

  void add_links(NodeId fabric) {
    std::map<NodeId, std::vector<size_t>> ports;
    for (size_t i = 0; i < graph_.links.size(); ++i) {
      const topo::Link& link = graph_.links[i];
      if (link.kind == LinkKind::Network) ports[graph_.host_of(link.a == fabric ? link.b : link.a)].push_back(i);
    }
    for (const auto& [node, beta] : betas_) {
      if (ports[node].empty()) ports[node].push_back(add_nic(node, fabric));
      for (const size_t port : ports[node]) {
        topo::Link& link = graph_.links[port];
        // Of several ports, one that is known to be slower than what was measured was not the one used: it keeps its
        // rate. Unless all of them were used: then each stands for all, for a path has one port.
        const bool slower = ports[node].size() > 1 && !link.assumed && link.gbps < gbps(beta);
        if (slower && !cabled_.contains(node)) continue;
        link.gbps = gbps(beta);
        link.most = gbps(std::min(beta, least_[node]));
        link.assumed = false;
        link.measured = true;
      }
    }
  }

  /// For a host whose NIC is unknown. Returns the number of its port's link.
  size_t add_nic(NodeId host, NodeId fabric) {
    const NodeId root = topo::device_root(graph_, host, {}).node, parent = root == topo::kNoNode ? host : root;
    const NodeId nic = graph_.add({.kind = NodeKind::Nic, .parent = parent, .assumed = true});
    graph_.connect({.a = nic, .b = parent, .kind = LinkKind::Pci, .gbps = kUnknownGbps, .assumed = true});
    graph_.connect({.a = nic, .b = fabric, .kind = LinkKind::Network, .gbps = kUnknownGbps, .assumed = true});
    return graph_.links.size() - 1;
  }

  /// Two islands have one link; more meet in the network between.
  void add_islands(NodeId fabric) {
    std::vector<std::pair<NodeId, const MeasuredIsland*>> islands;
    for (const MeasuredIsland& island : measured_.islands) {
      std::vector<NodeId> members;
      for (const std::string& name : island.hosts) {
        if (host(name) != topo::kNoNode) members.push_back(host(name));
      }
      if (members.empty()) continue;
      const NodeId own = graph_.add({.kind = NodeKind::Fabric, .name = island_name(members)});
      move_ports(members, fabric, own);
      islands.emplace_back(own, &island);
    }
    const bool joined = std::any_of(graph_.links.begin(), graph_.links.end(),
                                    [&](const auto& link) { return link.a == fabric || link.b == fabric; });
    const auto join = [&](NodeId a, NodeId b, double beta) {
      graph_.connect({.a = a, .b = b, .kind = LinkKind::Network, .gbps = gbps(beta), .measured = true});
    };
    if (islands.size() == 1 && !joined) return;  // all hosts of the job are in it
    if (islands.size() != 2 || joined) {
      for (const auto& [own, island] : islands) join(own, fabric, island->beta);
    } else {
      const double beta = std::max(islands[0].second->beta, islands[1].second->beta);
      join(islands[0].first, islands[1].first, beta);
    }
  }

  std::string island_name(const std::vector<NodeId>& members) const {
    constexpr size_t kMaxNamed = 4;
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(kMaxNamed, members.size()); ++i) names.push_back(graph_.nodes[members[i]].name);
    const size_t more = members.size() - names.size();
    return fmt::format("{}{}", fmt::join(names, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
  }

  void move_ports(const std::vector<NodeId>& members, NodeId from, NodeId to) {
    for (topo::Link& link : graph_.links) {
      if (link.kind != LinkKind::Network || (link.a != from && link.b != from)) continue;
      NodeId& end = link.a == from ? link.a : link.b;
      const NodeId nic = link.a == from ? link.b : link.a;
      if (std::find(members.begin(), members.end(), graph_.host_of(nic)) != members.end()) end = to;
    }
  }

  Graph& graph_;
  const MeasuredHosts& measured_;
  std::map<std::string, NodeId> hosts_;  // by name
  std::map<NodeId, double> betas_;       // by host: seconds per byte of its link …
  std::map<NodeId, double> least_;       // … and the least that was measured of links alike
  std::set<NodeId> cabled_;
};

}  // namespace

void add_measured_hosts(Graph& graph, const MeasuredHosts& hosts) {
  if (!hosts.empty()) Network(graph, hosts).add();
}

std::string measured_link_text(const Graph& graph, const topo::Link& link) {
  const std::string rate = rate_text(link.gbps * 1e9);
  if (joins_islands(graph, link)) {
    return fmt::format("link {} – {}: {}, {}", label(graph, link.a), label(graph, link.b), rate, kMeasured);
  }
  const NodeId inside = graph.nodes[link.a].kind == NodeKind::Fabric ? link.b : link.a;
  return fmt::format("link {}: {}, {}", label(graph, graph.host_of(inside)), rate, kMeasured);
}

namespace {

constexpr double kSlower = 0.8;  // than the fastest of its kind

/// Of what a host's ports lead to, and of the fastest of them; none: the host has no NIC.
std::map<NodeId, std::pair<NodeId, double>> networks_of(const Graph& graph) {
  std::map<NodeId, std::pair<NodeId, double>> networks;
  for (const topo::Link& link : graph.links) {
    const bool at_a = graph.nodes[link.a].kind == NodeKind::Fabric;
    if (link.kind != LinkKind::Network || joins_islands(graph, link)) continue;
    auto& [fabric, rate] = networks[graph.host_of(at_a ? link.b : link.a)];
    fabric = at_a ? link.a : link.b;
    rate = std::max(rate, link.gbps);
  }
  return networks;
}

/// Pairs that are slower than others, and than what leads to both of their hosts.
std::vector<std::string> slow_cables(const Graph& graph) {
  const auto networks = networks_of(graph);
  double fastest = 0;
  for (const Figure& figure : graph.figures) fastest = std::max(fastest, figure.a == topo::kNoNode ? 0 : figure.gbps);
  std::vector<std::string> lines;
  for (const Figure& figure : graph.figures) {
    if (figure.a == topo::kNoNode || figure.origin != kMeasured) continue;
    const auto a = networks.find(figure.a), b = networks.find(figure.b);
    if (a == networks.end() || b == networks.end() || a->second.first != b->second.first) continue;
    if (figure.gbps > kSlower * std::min({fastest, a->second.second, b->second.second})) continue;
    lines.push_back(fmt::format("link {} – {}: {}, {}", label(graph, figure.a), label(graph, figure.b),
                                rate_text(figure.gbps * 1e9), kMeasured));
  }
  return lines;
}

}  // namespace

std::vector<std::string> slow_links(const Graph& graph) {
  double fastest = 0;
  for (const topo::Link& link : graph.links) {
    if (link.measured && !joins_islands(graph, link)) fastest = std::max(fastest, link.gbps);
  }
  std::vector<std::string> lines;
  for (const topo::Link& link : graph.links) {
    if (!link.measured || (!joins_islands(graph, link) && link.gbps > kSlower * fastest)) continue;
    std::string line = measured_link_text(graph, link);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  for (std::string& line : slow_cables(graph)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace tutti::select
