#include "tools/topo/view.hpp"
namespace tutti::tools {
std::string draw_topology(const topo::Graph& graph, const std::string& title) {
  return title + std::to_string(graph.nodes.size());
}
}  // namespace tutti::tools
