// Small machines, drawn by hand, whose bounds can be checked with a pencil; and random networks.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "synth/network.hpp"
#include "topo/graph.hpp"

namespace tutti::synth {

/// GPUs and what joins them. Ranks are the GPUs, in the order of their making.
class Drawing {
 public:
  topo::NodeId host() { return host_ = graph_.add({.kind = topo::NodeKind::Host, .name = "host"}); }
  topo::NodeId gpu() {
    if (host_ == topo::kNoNode) host();
    ranks_.push_back(
        graph_.add({.kind = topo::NodeKind::Gpu, .parent = host_, .number = static_cast<int>(ranks_.size())}));
    return ranks_.back();
  }
  topo::NodeId node(topo::NodeKind kind) {
    return graph_.add({.kind = kind, .parent = kind == topo::NodeKind::Fabric ? topo::kNoNode : host_});
  }
  void join(topo::NodeId a, topo::NodeId b, double gbps, topo::LinkKind kind = topo::LinkKind::NvLink) {
    graph_.connect({.a = a, .b = b, .kind = kind, .gbps = gbps, .us = 1});
  }
  std::vector<topo::NodeId> gpus(int count) {
    std::vector<topo::NodeId> made;
    for (int i = 0; i < count; ++i) made.push_back(gpu());
    return made;
  }
  /// `count` GPUs on a switch.
  topo::NodeId star(int count, double gbps, topo::NodeKind kind = topo::NodeKind::NvSwitch) {
    const std::vector<topo::NodeId> ends = gpus(count);
    const topo::NodeId middle = node(kind);
    const auto link = kind == topo::NodeKind::NvSwitch ? topo::LinkKind::NvLink : topo::LinkKind::Pci;
    for (const topo::NodeId end : ends) join(end, middle, gbps, link);
    return middle;
  }
  /// What a job knows of messages between the hosts of two ranks.
  void know(size_t a, size_t b, double gbps) {
    graph_.figures.push_back({.between = topo::Figure::Between::Hosts,
                              .a = graph_.host_of(ranks_.at(a)),
                              .b = graph_.host_of(ranks_.at(b)),
                              .us = 10,
                              .gbps = gbps});
  }
  Network network() const { return network_of(graph_, ranks_); }
  const topo::Graph& graph() const { return graph_; }
  const std::vector<topo::NodeId>& ranks() const { return ranks_; }

 private:
  topo::Graph graph_;
  topo::NodeId host_ = topo::kNoNode;
  std::vector<topo::NodeId> ranks_;
};

inline Drawing ring(int count, double gbps) {
  Drawing drawing;
  const auto gpus = drawing.gpus(count);
  for (size_t i = 0; i < gpus.size(); ++i) drawing.join(gpus[i], gpus[(i + 1) % gpus.size()], gbps);
  return drawing;
}
inline Drawing line(const std::vector<double>& gbps) {
  Drawing drawing;
  const auto gpus = drawing.gpus(static_cast<int>(gbps.size()) + 1);
  for (size_t i = 0; i < gbps.size(); ++i) drawing.join(gpus[i], gpus[i + 1], gbps[i]);
  return drawing;
}
inline Drawing one_switch(int count, double gbps) {
  Drawing drawing;
  drawing.star(count, gbps);
  return drawing;
}
inline Drawing two_islands() {
  Drawing drawing;
  const auto a = drawing.star(4, 100), b = drawing.star(4, 100);
  drawing.join(a, b, 24);
  return drawing;
}
/// NVSwitches with so many GPUs each, and one that joins them and has no GPU of its own.
inline Drawing leaves_and_spine(int leaves, int each, double gbps) {
  Drawing drawing;
  std::vector<topo::NodeId> middles;
  for (int leaf = 0; leaf < leaves; ++leaf) middles.push_back(drawing.star(each, gbps));
  const auto spine = drawing.node(topo::NodeKind::NvSwitch);
  for (const topo::NodeId middle : middles) drawing.join(middle, spine, gbps);
  return drawing;
}
/// Two PCIe switches with two GPUs each, below a NUMA node.
inline Drawing pcie_tree() {
  Drawing drawing;
  const auto a = drawing.star(2, 24, topo::NodeKind::Bridge), b = drawing.star(2, 24, topo::NodeKind::Bridge);
  const auto numa = drawing.node(topo::NodeKind::Numa);
  drawing.join(a, numa, 12, topo::LinkKind::Pci);
  drawing.join(b, numa, 12, topo::LinkKind::Pci);
  return drawing;
}
inline Drawing hypercube(int dimensions, double gbps) {
  Drawing drawing;
  const auto gpus = drawing.gpus(1 << dimensions);
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (int bit = 0; bit < dimensions; ++bit) {
      const size_t other = i ^ (size_t{1} << bit);
      if (i < other) drawing.join(gpus[i], gpus[other], gbps);
    }
  }
  return drawing;
}
inline Drawing full_mesh(int count, double gbps) {
  Drawing drawing;
  const auto gpus = drawing.gpus(count);
  for (size_t i = 0; i < gpus.size(); ++i) {
    for (size_t j = i + 1; j < gpus.size(); ++j) drawing.join(gpus[i], gpus[j], gbps);
  }
  return drawing;
}
/// Three GPUs on a host with a slow port, and one on a host with a fast one.
inline Drawing uneven_hosts() {
  Drawing drawing;
  const auto fabric = drawing.node(topo::NodeKind::Fabric);
  for (const auto& [gpus, port] : {std::pair(3, 10.0), std::pair(1, 50.0)}) {
    drawing.host();
    const auto bridge = drawing.star(gpus, 24, topo::NodeKind::Bridge), nic = drawing.node(topo::NodeKind::Nic);
    drawing.join(bridge, nic, 24, topo::LinkKind::Pci);
    drawing.join(nic, fabric, port, topo::LinkKind::Network);
  }
  return drawing;
}

/// Hosts of two NUMA nodes, each with two PCIe switches of two GPUs and a NIC.
inline Drawing pcie_hosts(int hosts) {
  using topo::LinkKind;
  using topo::NodeKind;
  Drawing drawing;
  const auto fabric = drawing.node(NodeKind::Fabric);
  for (int host = 0; host < hosts; ++host) {
    drawing.host();
    const topo::NodeId numas[] = {drawing.node(NodeKind::Numa), drawing.node(NodeKind::Numa)};
    drawing.join(numas[0], numas[1], 10, LinkKind::Socket);
    for (int i = 0; i < 4; ++i) {
      const auto bridge = drawing.star(2, 12, NodeKind::Bridge), nic = drawing.node(NodeKind::Nic);
      drawing.join(bridge, numas[i / 2], 12, LinkKind::Pci);
      drawing.join(bridge, nic, 12, LinkKind::Pci);
      drawing.join(nic, fabric, 12, LinkKind::Network);
    }
  }
  return drawing;
}

/// Hosts with ports of these rates, and GPUs as many as `each`.
inline Drawing hosts_with_ports(const std::vector<double>& ports, int each = 1) {
  Drawing drawing;
  const auto fabric = drawing.node(topo::NodeKind::Fabric);
  for (const double port : ports) {
    drawing.host();
    const auto bridge = drawing.star(each, 100, topo::NodeKind::Bridge), nic = drawing.node(topo::NodeKind::Nic);
    drawing.join(bridge, nic, 100, topo::LinkKind::Pci);
    drawing.join(nic, fabric, port, topo::LinkKind::Network);
  }
  return drawing;
}
/// Four hosts with a cable of 4 GB/s between any two, but of 1 GB/s for these pairs.
inline Drawing cabled_hosts(const std::vector<std::pair<size_t, size_t>>& slow, int each = 1) {
  std::vector<double> ports(4, 12);
  for (const auto& [a, b] : slow) ports[a] -= 3, ports[b] -= 3;
  Drawing drawing = hosts_with_ports(ports, each);
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = a + 1; b < 4; ++b) {
      const bool is_slow = std::find(slow.begin(), slow.end(), std::pair(a, b)) != slow.end();
      drawing.know(a * static_cast<size_t>(each), b * static_cast<size_t>(each), is_slow ? 1 : 4);
    }
  }
  return drawing;
}

/// Both directions of each arc alike; connected.
inline Network random_network(unsigned seed, uint32_t most_vertices = 8) {
  std::mt19937 random(seed);
  const auto up_to = [&](uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random); };
  Network network{.ranks = 0,
                  .vertices = 2 + up_to(most_vertices - 2),
                  .arcs = {},
                  .unit = 1e9,
                  .hosts = {},
                  .inside = {},
                  .outside = {}};
  network.ranks = static_cast<Rank>(2 + up_to(network.vertices - 2));
  network.hosts.assign(static_cast<size_t>(network.ranks), 0);
  const auto join = [&](Vertex a, Vertex b) {
    const auto capacity = static_cast<Capacity>(1 + up_to(9));
    network.arcs.push_back({a, b, capacity, 1});
    network.arcs.push_back({b, a, capacity, 1});
  };
  for (Vertex v = 1; v < network.vertices; ++v) {
    const Vertex one = up_to(v - 1);
    join(v, one);
    for (Vertex other = 0; other < v; ++other) {
      if (other != one && up_to(2) == 0) join(v, other);
    }
  }
  return network;
}

}  // namespace tutti::synth
