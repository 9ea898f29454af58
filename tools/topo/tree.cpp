#include <algorithm>
#include <functional>
#include <map>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "tools/topo/view.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

using topo::Graph;
using topo::Link;
using topo::LinkKind;
using topo::Node;
using topo::NodeId;
using topo::NodeKind;

constexpr size_t kNameColumn = 56;  // links are printed from here on

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{} {}", figure(value), kUnits[unit]);
}

class Tree {
 public:
  explicit Tree(const Graph& graph)
      : graph_(graph), children_(children_of(graph)), up_(uplinks_of(graph)), links_(graph.nodes.size()) {
    for (const Link& link : graph.links) {
      if (link.kind != LinkKind::NvLink && link.kind != LinkKind::Socket) continue;
      links_[link.a].push_back(&link);
      links_[link.b].push_back(&link);
    }
  }

  std::string text() {
    for (const HostGroup& group : alike_hosts(graph_)) {
      line(0, host_text(group), "");
      for (const NodeId child : children_[group.first]) add(child, 1);
    }
    if (const auto fabric = graph_.all(NodeKind::Fabric); !fabric.empty()) line(0, "network", "joins all ports");
    for (const std::string& note : graph_.notes) out_ += "note: " + wrapped(note, 6) + "\n";
    return std::move(out_);
  }

 private:
  void line(int depth, const std::string& what, const std::string& links) {
    std::string text(2 * static_cast<size_t>(depth), ' ');
    text += what;
    if (!links.empty()) text += std::string(text.size() + 2 < kNameColumn ? kNameColumn - text.size() : 2, ' ') + links;
    out_ += text + "\n";
  }

  std::string host_text(const HostGroup& group) const {
    const Node& host = graph_.nodes[group.first];
    std::string text = label(graph_, group.first);
    if (group.hosts > 1) text += fmt::format(" and {} alike", counted(group.hosts - 1, "host"));
    std::vector<std::string> facts;
    if (host.bytes > 0) facts.push_back(size_text(host.bytes));
    if (!host.usable.empty() && host.usable != host.processors) {
      facts.push_back(fmt::format("this process may use processors {}", to_text(host.usable)));
    }
    if (host.quota > 0) facts.push_back(fmt::format("time of {} cores", figure(host.quota)));
    return facts.empty() ? text : fmt::format("{}: {}", text, fmt::join(facts, ", "));
  }

  void add(NodeId id, int depth) {
    line(depth, node_text(id), links_text(id));
    std::vector<NodeId> cores;
    for (const NodeId child : children_[id]) {
      if (graph_.nodes[child].kind == NodeKind::Core) {
        cores.push_back(child);
      } else {
        add(child, depth + 1);
      }
    }
    if (!cores.empty()) line(depth + 1, cores_text(cores), uplink_text(cores.front()));
  }

  /// "cores 0-7, 2 threads each".
  std::string cores_text(const std::vector<NodeId>& cores) const {
    Cores numbers;
    size_t threads = 0;
    for (const NodeId core : cores) {
      numbers.push_back(graph_.nodes[core].number);
      threads = std::max(threads, graph_.nodes[core].processors.size());
    }
    std::string text = fmt::format("{} {}", cores.size() == 1 ? "core" : "cores", to_text(numbers));
    return threads > 1 ? text + fmt::format(", {} threads each", threads) : text;
  }

  std::string node_text(NodeId id) const {
    const Node& node = graph_.nodes[id];
    std::string text = label(graph_, id);
    if ((node.kind == NodeKind::Gpu || node.kind == NodeKind::Nic) && text.find(node.address) == std::string::npos) {
      text += "  " + node.address;
    }
    if (node.sm > 0) text += fmt::format("  sm {}", node.sm);
    if (node.bytes > 0) text += "  " + size_text(node.bytes);
    if (node.kind == NodeKind::Numa && !node.processors.empty()) text += "  processors " + to_text(node.processors);
    if (!node.model.empty()) text += "  " + node.model.substr(0, 40);
    return text;
  }

  std::string uplink_text(NodeId id) const {
    const Link* const link = up_[id];
    if (link == nullptr || link->us == 0) return "";  // nothing narrow
    std::string text = fmt::format("{} GB/s{}", figure(link->gbps), link->assumed ? "?" : "");
    if (link->kind == LinkKind::Pci) text = "PCIe " + text;
    return text;
  }

  std::string links_text(NodeId id) const {
    const Node& node = graph_.nodes[id];
    std::vector<std::string> parts;
    if (const std::string up = uplink_text(id); !up.empty()) parts.push_back(up);
    if (node.kind == NodeKind::Nic) {
      parts.push_back(node.port > 0 ? fmt::format("port {} GB/s{}", figure(node.port), node.assumed ? "?" : "")
                                    : std::string("no port is up"));
    }
    if (node.kind == NodeKind::Gpu) add_nvlinks(id, parts);
    const auto socket = std::find_if(links_[id].begin(), links_[id].end(),
                                     [](const Link* link) { return link->kind == LinkKind::Socket; });
    if (socket != links_[id].end()) parts.push_back(fmt::format("to the others {} GB/s", figure((*socket)->gbps)));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void add_nvlinks(NodeId id, std::vector<std::string>& parts) const {
    uint32_t links = 0;
    double gbps = 0;
    std::map<NodeId, uint32_t> peers;
    for (const Link* link : links_[id]) {
      if (link->kind != LinkKind::NvLink) continue;
      links += link->width;
      gbps += link->gbps;
      const NodeId peer = link->a == id ? link->b : link->a;
      if (graph_.nodes[peer].kind == NodeKind::Gpu) peers[peer] += link->width;
    }
    if (links == 0) return;
    std::string text = fmt::format("{} {} GB/s", counted(links, "NVLink"), figure(gbps));
    if (!peers.empty()) text += " to";
    for (const auto& [peer, width] : peers) text += fmt::format(" {}", graph_.nodes[peer].number);
    parts.push_back(text);
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<const Link*> up_;
  std::vector<std::vector<const Link*>> links_;  // NVLinks and socket links
  std::string out_;
};

}  // namespace

std::string figure(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  const std::string text = fmt::format("{:.{}f}", value, value >= 10 ? 1 : value >= 1 ? 2 : 3);
  const size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1);
}

std::vector<std::vector<NodeId>> children_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> children(graph.nodes.size());
  for (NodeId i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].parent != topo::kNoNode) children[graph.nodes[i].parent].push_back(i);
  }
  return children;
}

std::vector<const Link*> uplinks_of(const Graph& graph) {
  std::vector<const Link*> up(graph.nodes.size());
  for (const Link& link : graph.links) {
    if (link.kind != LinkKind::NvLink && graph.nodes[link.a].parent == link.b) up[link.a] = &link;
  }
  return up;
}

std::vector<HostGroup> alike_hosts(const Graph& graph) {
  const auto children = children_of(graph);
  const auto up = uplinks_of(graph);
  // All of a host but names: two of equal text are alike.
  const std::function<std::string(NodeId)> shape_of = [&](NodeId id) {
    const Node& node = graph.nodes[id];
    std::string text = fmt::format("{}.{}.{}.{}.{}.{}.{}(", static_cast<int>(node.kind), node.number, node.model,
                                   to_text(node.processors), to_text(node.usable), node.port, node.sm);
    if (up[id] != nullptr) text += fmt::format("{}/{}", up[id]->gbps, up[id]->us);
    for (const NodeId child : children[id]) text += shape_of(child);
    return text + ")";
  };
  std::vector<HostGroup> groups;
  std::string last;
  for (const NodeId host : graph.all(NodeKind::Host)) {
    std::string shape = shape_of(host);
    if (!groups.empty() && shape == last) {
      ++groups.back().hosts;
      continue;
    }
    groups.push_back({host, 1});
    last = std::move(shape);
  }
  return groups;
}

bool may_use(const Graph& graph, NodeId core) {
  const Cores& usable = graph.nodes[graph.host_of(core)].usable;
  const Cores& own = graph.nodes[core].processors;
  return usable.empty() || std::any_of(own.begin(), own.end(), [&](int processor) {
           return std::binary_search(usable.begin(), usable.end(), processor);
         });
}

std::string tree_text(const Graph& graph) { return Tree(graph).text(); }

}  // namespace tutti::tools
