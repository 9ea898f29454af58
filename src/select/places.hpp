// Where ranks stand on a topology.
#pragma once

#include <memory>
#include <vector>

#include "base/rank.hpp"
#include "plan/grouping.hpp"
#include "topo/graph.hpp"

namespace tutti::select {

/// Where ranks are, by rank.
struct RankNodes {
  std::vector<topo::NodeId> nodes;  ///< a GPU or a core; a part of a host, or a host of unknown parts
  std::vector<Rank> hosts;          ///< the number of its host
};

/// `ranks` ranks (0: one for each GPU or, without GPUs, each core) on the hosts of a topology, in equal shares, each on
/// a GPU or core of its own as far as there are enough; or those of the job whose topology it is (it has figures).
/// Throws Error(InvalidArgument) if there are more hosts than ranks, or if a job has another number of ranks.
RankNodes place_ranks(const topo::Graph& graph, Rank ranks);

/// The ranks of one host by the last cache that they share. Null where that tells nothing: ranks of several hosts, or
/// on GPUs; a rank that may run on cores of several caches; one cache for all ranks, or one for each.
std::shared_ptr<const plan::Grouping> groups_by_cache(const topo::Graph& graph, const RankNodes& places);

/// Is it the topology of a job, with the job's ranks and figures?
inline bool is_job(const topo::Graph& graph) { return !graph.figures.empty() && !graph.ranks.empty(); }

}  // namespace tutti::select
