// Topologies from outside: NCCL's XML, hwloc's XML, JSON. A file is refused, with its line, or becomes a valid graph
// that can be searched, multiplied, and written as JSON that is read as the same.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topo/cluster.hpp"
#include "topo/graph_json.hpp"
#include "topo/import.hpp"
#include "topo/paths.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {
namespace {

constexpr size_t kSearched = 8;  // ends of paths
constexpr size_t kSmall = 4096;  // nodes of a graph that is multiplied

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

void search(const Graph& graph) {
  std::vector<NodeId> ends;
  for (NodeId node = 0; node < graph.nodes.size() && ends.size() < kSearched; ++node) ends.push_back(node);
  for (const NodeId rank : graph.ranks) {
    if (ends.size() < 2 * kSearched) ends.push_back(rank);
  }
  const PathFinder finder(graph);
  for (const NodeId from : ends) {
    for (const Path& path : finder.from(from, ends)) {
      if (path.kind != PathKind::None && !(path.gbps > 0 && path.us >= 0)) defect("a path without figures");
    }
  }
}

void read(std::string_view text) {
  Graph graph;
  try {
    graph = import_text(text, "input");
  } catch (const Error& error) {
    const std::string_view what = error.what();
    const bool names_it = what.starts_with("input:") || what.starts_with("input is ");  // "is" another kind of file
    if (error.code() != Code::InvalidArgument || !names_it) defect("an error that does not name the place");
    return;
  }
  check(graph);
  const std::string written = to_json(graph);
  if (to_json(graph_of_json(written, "again")) != written) defect("a topology is not what it was written as");
  for (NodeId node = 0; node < graph.nodes.size(); ++node) label(graph, node);
  search(graph);
  if (graph.nodes.size() <= kSmall) search(cluster(graph, 2));
}

}  // namespace
}  // namespace tutti::topo

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::topo::read({reinterpret_cast<const char*>(data), size});
  return 0;
}
