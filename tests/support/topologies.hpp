// The files of tests/topologies, and places in a topology.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "topo/graph.hpp"
#include "topo/import.hpp"

namespace tutti::test {

inline std::string topology_path(const std::string& name) { return TUTTI_SOURCE_DIR "/tests/topologies/" + name; }
inline topo::Graph sample(const std::string& name) { return topo::import_file(topology_path(name)); }

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The node that label() calls so; a failure if there is none.
inline topo::NodeId node_called(const topo::Graph& graph, const std::string& label) {
  for (topo::NodeId i = 0; i < graph.nodes.size(); ++i) {
    if (topo::label(graph, i) == label) return i;
  }
  ADD_FAILURE() << "there is no " << label;
  return 0;
}

}  // namespace tutti::test
