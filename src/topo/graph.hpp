// The machine as one graph: hosts, what they hold, and the links between. Read from this machine (topo/detect.hpp) or a
// file (topo/import.hpp), joined over hosts (topo/cluster.hpp), searched for paths (topo/paths.hpp).
//
// Every node but a host and the fabric lies in another one, its parent. Parents say where things are; links say where
// data go. A host's processors: core – complex (cores that share the last cache) – NUMA node – package, and packages to
// each other. Devices hang from bridges, and these from a NUMA node or package.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "topo/cores.hpp"

namespace tutti::topo {

enum class NodeKind : uint8_t { Host, Package, Numa, Complex, Core, Bridge, Gpu, NvSwitch, Nic, Fabric };
inline constexpr int kNodeKinds = 10;
const char* name_of(NodeKind kind);

enum class LinkKind : uint8_t {
  Cache,    ///< a core and its complex
  Die,      ///< inside a package: complex, NUMA node, package
  Socket,   ///< between packages, or between NUMA nodes whose packages are unknown
  Pci,      ///< a device, bridge or switch, and what it is plugged into
  NvLink,   ///< between GPUs, or a GPU and the NVSwitches
  Network,  ///< a NIC's port and the fabric
};
inline constexpr int kLinkKinds = 6;
const char* name_of(LinkKind kind);

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = std::numeric_limits<NodeId>::max();
inline constexpr size_t kMaxNodes = size_t{1} << 20;
inline constexpr size_t kMaxLinks = size_t{1} << 21;

struct Node {
  NodeKind kind = NodeKind::Host;
  NodeId parent = kNoNode;  ///< a smaller number; none: a host or the fabric
  std::string name;         ///< a host's, a NIC's; "package 0"; a fabric's, if there are several; "": kind and address
                            ///< say enough
  std::string model;        ///< of a processor or a device; "": unknown
  std::string address;      ///< PCI, as "0000:18:00.0"; "": none, or unknown
  Cores processors;         ///< of a host, package, NUMA node, complex or core; those known
  Cores usable;             ///< of a host: those that this process may use
  double quota = 0;         ///< of a host: cores' worth of time that a control group allows; 0: no limit
  int number = -1;          ///< a package's, NUMA node's or core's number; a GPU's device number; -1: unknown
  int sm = 0;               ///< a GPU's compute capability, 90 for 9.0; 0: unknown
  uint32_t count = 1;       ///< NVSwitches that this node stands for
  uint64_t bytes = 0;       ///< memory of a host, NUMA node or GPU; size of a complex's cache; 0: unknown
  double port = 0;          ///< of a NIC: GB/s of its port that messages can use, in each direction
  bool assumed = false;     ///< of a NIC: its port's speed is unknown
};

/// Both directions alike.
struct Link {
  NodeId a = kNoNode, b = kNoNode;
  LinkKind kind = LinkKind::Cache;
  uint32_t width = 1;     ///< lanes of a PCIe link; NVLinks
  double gbps = 0;        ///< GB/s (1e9) in each direction
  double us = 0;          ///< µs
  bool assumed = false;   ///< its speed is a default, because it is unknown
  bool measured = false;  ///< its speed is what `tutti tune` has measured
  double most = 0;        ///< GB/s: the most that was measured of it, or of links alike; 0: no more than gbps
};

/// What a message between two ranks takes, software included, as a job knows it: it stands above the links' figures.
struct Figure {
  enum class Between : uint8_t { Threads, Processes, Hosts };
  Between between = Between::Processes;
  NodeId a = kNoNode, b = kNoNode;  ///< Hosts: of messages between these two; none: between any two
  double us = 0;                    ///< µs of an empty message between the farthest ranks
  double gbps = 0;        ///< GB/s of a long one, in each direction; 0: the links' own, and `us` beside theirs
  double most = 0;        ///< GB/s: the most that messages of any length reach, for bounds; 0: nothing else is known
  bool in_place = false;  ///< readers read the writer's memory
  std::string over;       ///< of pairs whose path is of this kind (topo/paths.hpp); "": of any kind
  std::string transport;  ///< "shm", "tcp"
  std::string origin;     ///< "measured by `tutti tune`", "the quick calibration", "the library's constants"
};
const char* name_of(Figure::Between between);

struct Graph {
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<NodeId> ranks;        ///< by rank: the smallest node that it cannot leave, or its GPU; empty: no ranks
  std::vector<uint32_t> processes;  ///< by rank, the number of its process; empty: each rank has one of its own
  std::vector<Figure> figures;      ///< of a job
  std::map<std::string, double> facts;  ///< of a job: what else choices depend on (select/machine.cpp lists them)
  std::vector<std::string> notes;       ///< what a reader should know: things that were assumed or left out

  NodeId add(Node node);
  void connect(Link link);
  NodeId host_of(NodeId node) const;
  /// The node of this kind that `node` is, or lies in; kNoNode if there is none.
  NodeId enclosing(NodeId node, NodeKind kind) const;
  /// All nodes of a kind, in order.
  std::vector<NodeId> all(NodeKind kind) const;
  /// The smallest node of `host` that contains all these processors; the host itself if none does.
  NodeId place(NodeId host, const Cores& processors) const;
};

/// "GPU 3", "NIC mlx5_0", "package 0": short, unique within a host.
std::string label(const Graph& graph, NodeId node);

/// The checks of check() for one node, link, or figure.
void check_node(const Graph& graph, size_t node);
void check_link(const Graph& graph, size_t link);
void check_figure(const Graph& graph, size_t figure);
/// Throws Error(InvalidArgument) unless all numbers of nodes are valid, every parent precedes its children and may hold
/// them, and all figures are finite and positive.
void check(const Graph& graph);

/// Equal for machines that are alike in all that times depend on: not names, addresses, notes or ranks.
uint64_t hash_of(const Graph& graph);

/// The same in two parts, whatever part of a machine processes may use.
struct PartHashes {
  uint64_t machines = 0;
  uint64_t network = 0;  ///< between hosts: what `tutti tune --hosts` sets, adds behind the other nodes, or measures
};
PartHashes part_hashes_of(const Graph& graph);

}  // namespace tutti::topo
