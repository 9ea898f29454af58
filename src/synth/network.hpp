// A machine as a capacitated network: what its ranks can send each other, for bounds (synth/bound.hpp) and for plans
// made for it (synth/synthesize.hpp).
//
// Words. A *vertex* is a rank or a *switch*: whatever forwards and is no rank (a PCIe switch, a NUMA node, the
// NVSwitches, a NIC, the network). An *arc* is one direction of a link; its *capacity* is a whole number of *units*.
// The network is *balanced*: as much capacity leads into a vertex as out of it, because both directions of a link are
// alike.
//
// A message takes the path that topo::PathFinder finds, whatever a plan says. So only links on the path of some pair of
// ranks are in the network: no schedule of messages between ranks can use others (PCIe between GPUs that NVSwitches
// join), and a bound that counted them could not be reached.
//
// Where a job knows that two hosts of one network reach less than a message's way by their NICs (topo::HostFigures), a
// *cable* of that rate joins them beside the network. Such a host has a *gate*: its NICs lead there, and its cables and
// the network begin there, so what all of its messages share lies before it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rank.hpp"
#include "topo/graph.hpp"

namespace tutti::synth {

using Vertex = uint32_t;
using Capacity = int64_t;
__extension__ using Wide = __int128;  ///< of products of two of them

inline constexpr Rank kMaxRanks = 512;             ///< of a network
inline constexpr double kMinGbps = 1e-6;           ///< of a link: one kB/s; figures are rounded to whole kB/s
inline constexpr double kMaxGbps = 1e5;            ///< of a link: beyond, sums of products would overflow
inline constexpr uint32_t kMaxVertices = 1 << 14;  ///< of a network

inline constexpr uint32_t kNoHost = 0xffffffff;

struct Arc {
  Vertex from = 0, to = 0;
  Capacity capacity = 0;
  double us = 0;        ///< µs
  uint32_t origin = 0;  ///< of its rate, as a number in Network::origins
};

struct Network {
  Rank ranks = 0;         ///< vertices 0 to ranks − 1; the others are switches
  uint32_t vertices = 0;  ///< all of them
  std::vector<Arc> arcs;  ///< at most one from a vertex to another
  double unit = 1;        ///< bytes a second of one unit of capacity
  /// Where rates come from, in words (topo::LinkRate); empty: of no machine.
  std::vector<std::string> origins;

  std::vector<topo::NodeId> nodes;  ///< by vertex, of a machine's network
  std::vector<uint32_t> hosts;      ///< by rank: the number of its host
  /// By rank: the switches that its messages pass, in order, on each of their ways: to a rank of the same host, or to
  /// the network, which is the last one then (or the gate is, of a host with a cable to each other one). Both empty:
  /// messages may take any way.
  std::vector<std::map<Rank, std::vector<Vertex>>> inside;
  std::vector<std::vector<Vertex>> outside;
  /// Switches that fold and multicast what ranks on them have, and what other such switches folded
  /// (topo/folding.hpp); others only forward.
  std::vector<Vertex> folding;
  std::vector<uint32_t> places;                    ///< by vertex: the number of the host it lies in, or kNoHost
  std::map<uint32_t, Vertex> gates;                ///< by number of the host, of those with cables
  std::set<std::pair<uint32_t, uint32_t>> cables;  ///< the numbers of the two hosts, both ways round
  /// Can messages go wherever a flow can, and are all rates known? Else bounds are lower ones: a flow may pass a gate
  /// from cable to cable where messages, which have to pass a rank, are slower; or links may carry less.
  bool exact = true;

  bool is_rank(Vertex vertex) const { return vertex < static_cast<Vertex>(ranks); }
  uint32_t host(Vertex rank) const { return hosts[rank]; }
  /// May messages go from `from` by `through` to `to`, which are neighbours, or were before switches between them were
  /// removed? Only if that is part of some rank's ways, or of the way between the two if both are ranks.
  bool passes(Vertex from, Vertex through, Vertex to) const;
  bool has_ways() const { return !inside.empty(); }
  /// The host whose gate this is, or kNoHost.
  uint32_t host_of_gate(Vertex vertex) const;
  /// Is there a way of messages between two ranks? Of GPUs that others lie between there may be none.
  bool has_way(Rank from, Rank to) const;
  /// All vertices of a message's way, its ends included. There must be one.
  std::vector<Vertex> way(Rank from, Rank to) const;

 private:
  bool passes_on_its_way(Vertex rank, std::span<const Vertex> part) const;
  bool has_cable(Vertex a, Vertex b) const { return cables.contains({host(a), host(b)}); }
  /// Of a gate, a rank of its host; others are themselves.
  Vertex rank_behind(Vertex vertex) const;
  std::vector<Vertex> way_out(Vertex rank, bool to_cable) const;
};

/// May several ranks be on one node? Nothing is known of what they can send each other, so links of kMaxGbps join them
/// to the node: plans are right, and no bound is known.
enum class Sharing : uint8_t { Refuse, Allow };

/// Rates as the cost model has them, for plans; or the most that links carry by all that a job knows
/// (topo/link_rates.hpp), for bounds.
enum class Rates : uint8_t { Known, AtMost };

/// The network between ranks on these nodes (by rank): GPUs or cores. Throws Error(InvalidArgument) for other nodes,
/// two ranks on one node where they may not share it, bandwidths beyond the limits above, and too many ranks or
/// vertices.
Network network_of(const topo::Graph& graph, std::span<const topo::NodeId> nodes, Sharing sharing = Sharing::Refuse,
                   Rates rates = Rates::Known);
/// The same at most, for bounds.
inline Network network_at_most(const topo::Graph& graph, std::span<const topo::NodeId> nodes) {
  return network_of(graph, nodes, Sharing::Refuse, Rates::AtMost);
}

/// The ends of the links that are in it.
std::vector<std::pair<topo::NodeId, topo::NodeId>> links_of(const topo::Graph& graph,
                                                            std::span<const topo::NodeId> nodes);

/// The same with every arc turned round: what gathers along arcs becomes what scatters.
Network reversed(Network network);

}  // namespace tutti::synth
