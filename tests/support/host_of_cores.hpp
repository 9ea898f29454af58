// A host of processors alone, as large as a test wants it.
#pragma once

#include <vector>

#include "topo/processors.hpp"

namespace tutti::test {

/// A host of AMD's: packages of some caches, each shared by some cores.
inline topo::Graph host_of_cores(int packages, int caches, int cores) {
  using topo::NodeKind;
  topo::Graph graph;
  const topo::NodeId id = graph.add({.kind = NodeKind::Host, .name = "here"});
  std::vector<topo::Node> areas;
  const auto add = [&](NodeKind kind, int first, int count, int number, uint64_t bytes) {
    topo::Node area{.kind = kind, .number = number, .bytes = bytes};
    for (int core = first; core < first + count; ++core) area.processors.push_back(core);
    areas.push_back(std::move(area));
  };
  int core = 0;
  for (int package = 0; package < packages; ++package) {
    add(NodeKind::Package, core, caches * cores, package, 0);
    for (int cache = 0; cache < caches; ++cache) {
      add(NodeKind::Complex, core, cores, -1, 32 << 20);
      for (int i = 0; i < cores; ++i, ++core) add(NodeKind::Core, core, 1, core, 0);
    }
  }
  for (int i = 0; i < core; ++i) graph.nodes[id].processors.push_back(i);
  topo::add_processors(graph, id, std::move(areas), {.vendor = "AuthenticAMD"});
  return graph;
}

}  // namespace tutti::test
