// The mesh: the world's ranks as a grid with one axis for each kind of parallelism.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/train/collectives.hpp"

namespace tutti::train {

/// How many ranks stand on each axis. Their product is the number of ranks.
struct MeshShape {
  int dp = 1;  ///< data: replicas, each with data of its own
  int pp = 1;  ///< pipeline: stages of units
  int cp = 1;  ///< context: pieces of the sequence
  int ep = 1;  ///< expert: pieces of the experts; for all else, replicas with data of their own
  int tp = 1;  ///< tensor: pieces of each matrix
  /// The product; INT64_MAX if it is more.
  int64_t ranks() const;
};

/// One rank's coordinates and communicators. tp is innermost (neighbouring ranks: the fastest links), then cp, ep and
/// pp; dp is outermost: rank = (((dp·PP + pp)·EP + ep)·CP + cp)·TP + tp.
class Mesh {
 public:
  /// Every rank of the world calls it, with the same shape; `counters` must outlast the mesh. Throws
  /// Error(InvalidArgument), which says what divides, unless shape.ranks() is the world's size.
  Mesh(Communicator& world, const MeshShape& shape, Counters& counters);
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const MeshShape& shape() const { return shape_; }
  /// This rank's coordinates.
  const MeshShape& at() const { return at_; }
  /// Those of any rank of the world.
  MeshShape coordinates(int rank) const;
  /// Ends the pending and later calls of every rank on all of the mesh's communicators with Error(Aborted).
  void abort();
  Collectives& world() { return world_; }
  Collectives& dp() { return dp_; }
  Collectives& pp() { return pp_; }
  Collectives& cp() { return cp_; }
  Collectives& ep() { return ep_; }
  Collectives& tp() { return tp_; }
  /// The ranks that hold the same dense parameters: dp × ep × cp. Their gradients are averaged.
  Collectives& replicas() { return replicas_; }
  /// The ranks that hold the same experts: dp × cp.
  Collectives& expert_replicas() { return expert_replicas_; }
  /// All of them, with their names.
  std::vector<std::pair<const char*, Collectives*>> axes();
  /// Ranks with data of their own (dp × ep), and this rank among them.
  int data_ways() const { return shape_.dp * shape_.ep; }
  int data_index() const { return at_.dp * shape_.ep + at_.ep; }
  /// What is doubtful about the mesh on these hosts, for people; "" if nothing. The same on all ranks.
  const std::string& warning() const { return warning_; }

 private:
  void warn_of_hosts(Communicator& world);
  MeshShape shape_, at_;
  Collectives world_, dp_, pp_, cp_, ep_, tp_, replicas_, expert_replicas_;
  std::string warning_;
};

/// Why `shape` does not fit `ranks`, and what would; "" if it fits.
std::string objection(const MeshShape& shape, int ranks);

}  // namespace tutti::train
