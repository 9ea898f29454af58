// The machine of a simulation: where ranks are, what their messages share on the way, and what work costs.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/rank.hpp"
#include "sim/network.hpp"
#include "sim/programs.hpp"
#include "topo/graph.hpp"
#include "topo/host_figures.hpp"
#include "topo/paths.hpp"

namespace tutti::sim {

/// How messages get from one rank to another.
struct Route {
  std::vector<uint32_t> resources;
  double seconds = 0;    ///< of an empty message
  double busy = 0;       ///< of those, the processor time at either end, if others precede it without a wait
  bool network = false;  ///< between hosts
};

/// What work costs, in seconds.
struct WorkCosts {
  double call = 0;            ///< of a rank's call, beside its instructions
  double software = 0;        ///< of a message between processes, beyond its way; of GPUs: none
  double message_share = 0;   ///< of a message's latency: processor time, at each end, of one that follows another
  double first_read = 0;      ///< until the first bytes of messages that lie in another rank's memory have come
  double copy = 0;            ///< for a byte that a core copies from another rank's memory
  double write = 0;           ///< for a byte that a core copies to memory that another rank reads, or to its own
  double second = 0;          ///< for a byte that is written to a second place at once
  double load = 0;            ///< for a byte of its own memory, beyond `write` and `fold`: no cache may hold it
  double store = 0;           ///< for a byte of a result in its own memory, beyond `copy` and `write`
  double fold = 0;            ///< for a byte that is folded, beyond copying it
  double kernel = 0;          ///< for a byte that the kernel copies (CMA), beyond `copy`
  double kernel_call = 0;     ///< for each message that it copies
  double context_switch = 0;  ///< between ranks that share a core
  double memory_load = 0;     ///< bytes that cross a package's memory for each byte of a buffer that is read …
  double memory_store = 0;    ///< … and that is written: where caches hold the buffers, none
};

/// Of an instruction's bytes, without its messages, its waits, and what the kernel or the machine's links move.
double processor_seconds(const WorkCosts& costs, const Work& work);

/// Ranks on GPUs write to their readers' memory, each lane on its own. Ranks on cores read their writers' memory, and
/// all lanes of a rank (and all ranks of a core) share the core.
class Machine {
 public:
  /// `nodes`: by rank, its GPU or core. Throws Error(InvalidArgument) if a node is something else.
  Machine(const topo::Graph& graph, std::vector<topo::NodeId> nodes, const WorkCosts& costs);
  /// `ranks` processes on the `cores` cores of a host of unknown parts.
  Machine(Rank ranks, Rank cores, const WorkCosts& costs);

  Rank ranks() const { return static_cast<Rank>(core_.size()); }
  bool gpus() const { return gpus_; }
  const WorkCosts& costs() const { return costs_; }
  std::span<const SharedResource> resources() const { return resources_; }
  /// The core that a rank runs on: ranks of one core have equal numbers. Of GPUs, the rank.
  uint32_t core_of(Rank rank) const { return core_[static_cast<size_t>(rank)]; }
  uint32_t cores() const { return cores_; }
  static constexpr uint32_t kNoMemory = 0xffffffff;
  /// The resource that is the memory of a rank's package; kNoMemory: of GPUs, and of a machine without a topology.
  uint32_t memory_of(Rank rank) const { return memory_.empty() ? kNoMemory : memory_[static_cast<size_t>(rank)]; }
  /// Throws Error(InvalidArgument) if the topology has no path.
  const Route& route(Rank from, Rank to);

 private:
  struct Host {
    topo::Graph graph;                         // the host alone, and the fabric if there is one
    std::map<topo::NodeId, topo::NodeId> own;  // number of a node of the whole graph
    std::vector<uint32_t> links;               // number in the whole graph
    topo::NodeId fabric = topo::kNoNode;
    topo::NodeId network = topo::kNoNode;  // the fabric's number in the whole graph
    std::unique_ptr<topo::PathFinder> finder;
  };

  void take_hosts(const topo::Graph& graph);
  void take_link(Host& host, topo::Link link, uint32_t number, const topo::Graph& graph);
  void add_links(const topo::Graph& graph);
  void add_pairs(const topo::Graph& graph);
  void take_nics(const topo::Graph& graph);
  void add_memories(const topo::Graph& graph);
  /// Of a path that starts at a node of `host`.
  Route route_of(const Host& host, const topo::Path& path, topo::NodeId from, bool backwards) const;
  Route inside(Rank from, Rank to) const;
  Route between(Rank from, Rank to);
  Route across(const Host& from, const Host& to) const;
  const std::pair<Route, Route>& ways_out(Rank rank);

  std::vector<topo::NodeId> nodes_;
  std::vector<uint32_t> core_, host_, memory_;  // by rank
  std::vector<topo::NodeId> host_nodes_;        // by rank
  std::vector<topo::NodeId> nics_;              // by rank, where figures of hosts are known
  uint32_t cores_ = 0;
  bool gpus_ = false;
  WorkCosts costs_;
  std::vector<SharedResource> resources_;  // links, two each; what joins pairs of hosts; memories; cores
  std::map<topo::SharedFigure, uint32_t> pairs_;
  std::vector<std::unique_ptr<Host>> hosts_;
  Host networks_;  // all fabrics, and the links that join them
  std::map<std::pair<Rank, Rank>, Route> routes_;
  std::map<Rank, std::pair<Route, Route>> out_;  // to the fabric, and from it
};

}  // namespace tutti::sim
