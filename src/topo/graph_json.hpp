// A topology as JSON: {"format": "tutti-topology", "version": 1, "nodes": […], "links": […], "ranks": […], "notes":
// […]}, a node or link a line. docs/topology.md describes the fields.
#pragma once

#include <string>
#include <string_view>

#include "topo/graph.hpp"

namespace tutti::topo {

inline constexpr size_t kLongestJson = size_t{64} << 20;  ///< bytes that are read at most

std::string to_json(const Graph& graph);
/// Throws Error(InvalidArgument) "NAME:LINE: what".
Graph graph_of_json(std::string_view text, const std::string& name);

}  // namespace tutti::topo
