// The best path between two nodes of a topology.
//
// Best: of the widest paths (the narrowest link decides) the one of least latency. A path inside a host does not use
// the network. Cores and GPUs do not forward; NICs do, between PCIe and the network.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/graph.hpp"

namespace tutti::topo {

/// What a path goes through, by its worst part.
enum class PathKind : uint8_t {
  SameCore,    ///< both ends are one core
  SameGpu,     ///< both ends are one GPU
  Complex,     ///< cores that share their last cache
  Package,     ///< cores of one package
  NvLink,      ///< GPUs that NVLinks join directly
  NvSwitch,    ///< GPUs behind the same NVSwitches
  PciSwitch,   ///< devices behind the same PCIe switch
  HostBridge,  ///< PCIe and a processor's host bridge
  Sockets,     ///< the link between two packages
  Network,     ///< between hosts
  None,        ///< there is none
};
inline constexpr int kPathKinds = 11;
/// "same core complex".
const char* name_of(PathKind kind);
/// At most four letters, for tables: "L3", "PKG", "NVL", "NVS", "PIX", "PHB", "SYS", "NET"; like nvidia-smi's.
const char* code_of(PathKind kind);

struct Path {
  PathKind kind = PathKind::None;
  double gbps = 0;              ///< of its narrowest link
  double us = 0;                ///< of all links together
  std::vector<uint32_t> links;  ///< numbers of Graph::links, in order
};

/// Keeps no copy: the graph must outlive it, unchanged.
class PathFinder {
 public:
  explicit PathFinder(const Graph& graph);

  /// Two ends that lie in the same place, and ends that are not cores or GPUs (a rank that may run on any core of a
  /// package), count as the first core of the one and the last of the other.
  Path between(NodeId a, NodeId b) const { return from(a, std::span(&b, 1)).front(); }
  /// The same for several ends at once, which is faster.
  std::vector<Path> from(NodeId a, std::span<const NodeId> ends) const;

 private:
  struct Half {
    uint32_t link;
    NodeId to;
  };
  struct Reached;

  bool forwards(NodeId node, NodeId source) const;
  /// The width of the widest path to each node.
  std::vector<double> widths(NodeId source, bool network) const;
  /// The shortest paths over links of at least this width.
  Reached shortest(NodeId source, bool network, double least) const;
  Path path_to(NodeId source, NodeId end, const Reached& reached) const;
  PathKind kind_of(const Path& path, NodeId source) const;
  NodeId core_of(NodeId node, bool last) const;

  const Graph& graph_;
  std::vector<NodeId> host_;                    // of each node
  std::vector<NodeId> first_core_, last_core_;  // in each node; none: kNoNode
  std::vector<uint32_t> begin_;                 // of each node's part of halves_
  std::vector<Half> halves_;
};

}  // namespace tutti::topo
