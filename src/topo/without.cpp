#include "topo/without.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"

namespace tutti::topo {
namespace {

bool holds_ranks(NodeKind kind) { return kind == NodeKind::Gpu || kind == NodeKind::Core; }

/// By node: does it go?
std::vector<bool> gone_from(const Graph& graph, const std::set<NodeId>& nodes) {
  std::vector<bool> gone(graph.nodes.size());
  std::set<NodeId> held, hold;  // hosts with a place for ranks: before, and after
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    const NodeId parent = graph.nodes[i].parent;
    gone[i] = nodes.contains(i) || (parent != kNoNode && gone[parent]);
    if (!holds_ranks(graph.nodes[i].kind)) continue;
    held.insert(graph.host_of(i));
    // A host whose GPUs are all gone would lend its cores, which nobody asked for.
    const bool gpu = graph.nodes[i].kind == NodeKind::Gpu;
    if (!gone[i] && gpu) hold.insert(graph.host_of(i));
  }
  const bool gpus = !graph.all(NodeKind::Gpu).empty();
  for (NodeId i = 0; !gpus && i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::Core && !gone[i]) hold.insert(graph.host_of(i));
  }
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    const NodeId host = graph.host_of(i);
    gone[i] = gone[i] || (held.contains(host) && !hold.contains(host));
  }
  return gone;
}

/// One part of a machine, as a user names it.
class Named {
 public:
  Named(const Graph& graph, const std::string& text) : graph_(graph), text_(text) {
    const size_t colon = text.find(':');
    kind_ = text.substr(0, colon);
    if (colon != std::string::npos) rest_ = text.substr(colon + 1);
    const size_t slash = rest_.find('/');
    const std::vector<NodeId> hosts = graph.all(NodeKind::Host);
    const std::string number = slash == std::string::npos ? "0" : rest_.substr(0, slash);
    if (slash != std::string::npos) rest_ = rest_.substr(slash + 1);
    if (!is_number(number) || std::stoul(number) >= hosts.size()) {
      bad(fmt::format("there are {} hosts, from 0 on", hosts.size()));
    }
    host_ = hosts[std::stoul(number)];
  }

  bool is_link() const { return kind_ == "link"; }

  NodeId node() const {
    if (kind_ == "gpu") return only(NodeKind::Gpu, "GPU " + rest_);
    if (kind_ != "nic") bad("write gpu:N, nic:NAME or link:A-B");
    const std::vector<NodeId> nics = of_host(NodeKind::Nic);
    if (is_number(rest_) && std::stoul(rest_) < nics.size()) return nics[std::stoul(rest_)];
    return only(NodeKind::Nic, "NIC " + rest_);
  }

  /// The nodes at both ends of a link. Names of nodes may hold dashes.
  std::pair<NodeId, NodeId> ends() const {
    for (size_t dash = rest_.find('-'); dash != std::string::npos; dash = rest_.find('-', dash + 1)) {
      const NodeId a = called(rest_.substr(0, dash)), b = called(rest_.substr(dash + 1));
      if (a != kNoNode && b != kNoNode) return {a, b};
    }
    bad("no two nodes are called so; `tutti topo` shows the names, as in link:GPU 0-PCIe switch 0000:10:00.0");
  }

  [[noreturn]] void bad(const std::string& why) const {
    throw_error(Code::InvalidArgument, "--without {}: {}", text_, why);
  }

 private:
  static bool is_number(const std::string& word) {
    return !word.empty() && word.size() < 6 && word.find_first_not_of("0123456789") == std::string::npos;
  }
  std::vector<NodeId> of_host(NodeKind kind) const {
    std::vector<NodeId> nodes = graph_.all(kind);
    std::erase_if(nodes, [&](NodeId node) { return graph_.host_of(node) != host_; });
    return nodes;
  }
  NodeId called(const std::string& name) const {
    for (NodeId i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].kind != NodeKind::Fabric && graph_.host_of(i) != host_) continue;
      const std::string is = label(graph_, i);
      if (is == name || (is_number(name) && is == "GPU " + name)) return i;
    }
    return kNoNode;
  }
  NodeId only(NodeKind kind, const std::string& name) const {
    std::string known;
    for (const NodeId node : of_host(kind)) {
      if (label(graph_, node) == name) return node;
      known += (known.empty() ? "" : ", ") + label(graph_, node);
    }
    bad(known.empty() ? fmt::format("the host has no {}", name_of(kind)) : "there are " + known);
  }

  const Graph& graph_;
  const std::string& text_;
  std::string kind_, rest_;
  NodeId host_ = kNoNode;
};

}  // namespace

Graph without_parts(Graph graph, const std::vector<std::string>& parts) {
  for (const std::string& text : parts) {
    const Named part(graph, text);
    if (!part.is_link()) {
      graph = without_nodes(graph, {part.node()});
      continue;
    }
    const auto [a, b] = part.ends();
    const auto joins = [a = a, b = b](const Link& link) {
      return (link.a == a && link.b == b) || (link.a == b && link.b == a);
    };
    if (std::erase_if(graph.links, joins) == 0) part.bad("no link joins the two");
  }
  return graph;
}

Graph without_nodes(const Graph& graph, const std::set<NodeId>& nodes) {
  const std::vector<bool> gone = gone_from(graph, nodes);
  Graph left;
  std::vector<NodeId> moved(graph.nodes.size(), kNoNode);
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    if (gone[i]) continue;
    Node node = graph.nodes[i];
    if (node.parent != kNoNode) node.parent = moved[node.parent];
    moved[i] = left.add(std::move(node));
  }
  for (Link link : graph.links) {
    if (gone[link.a] || gone[link.b]) continue;
    link.a = moved[link.a];
    link.b = moved[link.b];
    left.connect(link);
  }
  left.notes = graph.notes;
  if (std::any_of(graph.ranks.begin(), graph.ranks.end(), [&](NodeId rank) { return gone[rank]; })) return left;
  for (const NodeId rank : graph.ranks) left.ranks.push_back(moved[rank]);
  left.processes = graph.processes;
  left.facts = graph.facts;
  for (Figure figure : graph.figures) {
    if (figure.a != kNoNode && (gone[figure.a] || gone[figure.b])) continue;
    if (figure.a != kNoNode) figure.a = moved[figure.a], figure.b = moved[figure.b];
    left.figures.push_back(figure);
  }
  return left;
}

}  // namespace tutti::topo
