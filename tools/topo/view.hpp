// What `tutti topo` shows of a topology: a tree, a matrix of paths, a drawing.
#pragma once

#include <string>
#include <vector>

#include "topo/graph.hpp"
#include "topo/paths.hpp"

namespace tutti::tools {

inline constexpr size_t kColumns = 100;  ///< of text, where it can be kept

/// "371", "47", "11.8", "0.023": three digits that count.
std::string figure(double value);

/// Consecutive hosts that are alike in everything but names.
struct HostGroup {
  topo::NodeId first = topo::kNoNode;
  size_t hosts = 1;
};
std::vector<HostGroup> alike_hosts(const topo::Graph& graph);

/// Children of each node, in order.
std::vector<std::vector<topo::NodeId>> children_of(const topo::Graph& graph);

/// The link of each node to its parent; null if there is none.
std::vector<const topo::Link*> uplinks_of(const topo::Graph& graph);

/// Whether this process may run on the core.
bool may_use(const topo::Graph& graph, topo::NodeId core);

std::string tree_text(const topo::Graph& graph);

/// The ends of the matrix' paths: ranks; without ranks, cores that may be used.
struct Ends {
  std::vector<topo::NodeId> nodes;
  std::vector<std::string> names;
};
Ends ends_of(const topo::Graph& graph);

/// Paths from the first ends to all: at most kMaxRows rows, and some kMaxPaths paths.
struct Matrix {
  static constexpr size_t kMaxRows = 256, kMaxPaths = size_t{1} << 19;
  Ends ends;
  std::vector<std::vector<topo::Path>> paths;  ///< [from][to]
};
Matrix matrix_of(const topo::Graph& graph);
std::string matrix_text(const topo::Graph& graph, const Matrix& matrix);

std::string draw_topology(const topo::Graph& graph, const std::string& title);

}  // namespace tutti::tools
