#include <algorithm>
#include <map>
#include <tuple>

#include "base/format.hpp"
#include "tools/topo/view.hpp"

namespace tutti::tools {
namespace {

using topo::Graph;
using topo::Link;
using topo::NodeId;
using topo::NodeKind;
using topo::Path;
using topo::PathKind;

/// Paths that look alike: one line of the legend.
using Class = std::tuple<PathKind, double, double>;
Class class_of(const Path& path) { return {path.kind, path.gbps, path.us}; }

struct Example {
  size_t pairs = 0, from = 0, to = 0;
  const Path* path = nullptr;
};

std::map<Class, Example> classes_of(const Matrix& matrix) {
  std::map<Class, Example> classes;
  for (size_t from = 0; from < matrix.paths.size(); ++from) {
    for (size_t to = 0; to < matrix.paths[from].size(); ++to) {
      if (from == to) continue;
      Example& example = classes[class_of(matrix.paths[from][to])];
      if (example.pairs++ == 0) example = {1, from, to, &matrix.paths[from][to]};
    }
  }
  return classes;
}

/// "package 0, NUMA node 1, …": where a path goes through.
std::string way_of(const Graph& graph, NodeId from, const Path& path) {
  std::string text;
  NodeId at = from;
  if (!path.links.empty()) {  // a rank on several cores starts at one of them
    const Link& first = graph.links[path.links.front()];
    at = first.a == at || first.b == at ? at : graph.nodes[first.a].kind == NodeKind::Core ? first.a : first.b;
  }
  for (size_t i = 0; i < path.links.size(); ++i) {
    const Link& link = graph.links[path.links[i]];
    at = link.a == at ? link.b : link.a;
    if (i + 1 < path.links.size()) text += (text.empty() ? "" : ", ") + label(graph, at);
  }
  return text;
}

std::string legend(const Graph& graph, const Matrix& matrix, const std::map<Class, char>& letters) {
  std::string text = fmt::format("{:<6}{:<20}{:>8}{:>8}{:>8}  {}\n", "", "path", "GB/s", "us", "pairs", "for example");
  for (const auto& [kind, example] : classes_of(matrix)) {
    const Path& path = *example.path;
    const std::string sign = letters.empty() ? code_of(path.kind) : std::string(1, letters.at(kind));
    const std::string way = way_of(graph, matrix.ends.nodes[example.from], path);
    std::string line =
        fmt::format("{:<6}{:<20}{:>8}{:>8}{:>8}  {}-{}{}", sign, name_of(path.kind), figure(path.gbps), figure(path.us),
                    example.pairs, example.from, example.to, way.empty() ? "" : " by " + way);
    if (line.size() > kColumns) line = line.substr(0, kColumns - 3) + "...";
    text += line + "\n";
  }
  return text;
}

/// A table whose rows and columns are the ends; cell(from, to) is its text.
template <class Cell>
std::string table(const Matrix& matrix, size_t width, const Cell& cell) {
  size_t names = 0;
  for (const std::string& name : matrix.ends.names) names = std::max(names, name.size());
  const size_t ends = matrix.ends.nodes.size();
  std::string text(names, ' ');
  for (size_t to = 0; to < ends; ++to) text += fmt::format(" {:<{}}", to, width);
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  for (size_t from = 0; from < ends; ++from) {
    std::string line = fmt::format("{:<{}}", matrix.ends.names[from], names);
    for (size_t to = 0; to < ends; ++to) {
      line += fmt::format(" {:<{}}", from == to ? std::string("-") : cell(matrix.paths[from][to]), width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

template <class Cell>
size_t widest(const Matrix& matrix, const Cell& cell) {
  size_t width = fmt::formatted_size("{}", matrix.ends.nodes.size() - 1);
  for (const auto& row : matrix.paths) {
    for (const Path& path : row) width = std::max(width, cell(path).size());
  }
  return width;
}

}  // namespace

Ends ends_of(const Graph& graph) {
  Ends ends;
  if (!graph.ranks.empty()) {
    bool gpus = graph.all(NodeKind::Host).size() == 1;  // in the tree, too, rank i is GPU i
    for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      const topo::Node& node = graph.nodes[graph.ranks[rank]];
      gpus = gpus && node.kind == NodeKind::Gpu && node.number == static_cast<int>(rank);
    }
    for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      ends.nodes.push_back(graph.ranks[rank]);
      ends.names.push_back(fmt::format("{} {}", gpus ? "GPU" : "rank", rank));
    }
    return ends;
  }
  for (const NodeId core : graph.all(NodeKind::Core)) {
    if (!may_use(graph, core)) continue;
    ends.names.push_back(fmt::format("core {}", ends.nodes.size()));
    ends.nodes.push_back(core);
  }
  return ends;
}

Matrix matrix_of(const Graph& graph) {
  Matrix matrix{.ends = ends_of(graph)};
  const topo::PathFinder finder(graph);
  const size_t ends = std::max<size_t>(1, matrix.ends.nodes.size());
  const size_t rows = std::clamp<size_t>(Matrix::kMaxPaths / ends, 1, Matrix::kMaxRows);
  for (const NodeId from : matrix.ends.nodes) {
    if (matrix.paths.size() == rows) break;
    matrix.paths.push_back(finder.from(from, matrix.ends.nodes));
  }
  return matrix;
}

std::string matrix_text(const Graph& graph, const Matrix& matrix) {
  const size_t ends = matrix.ends.nodes.size();
  if (ends < 2) return "";
  const size_t names = matrix.ends.names.back().size();
  const auto fits = [&](size_t width) { return names + ends * (width + 1) <= kColumns; };
  const auto full = [](const Path& path) {
    const std::string us = figure(path.us);  // ".6" for 0.6: eight GPUs fit
    return fmt::format("{} {} {}", code_of(path.kind), figure(path.gbps), us.starts_with("0.") ? us.substr(1) : us);
  };
  if (matrix.paths.size() == ends && ends <= kColumns) {
    if (const size_t width = widest(matrix, full); fits(width)) {
      return "path, GB/s, us\n" + table(matrix, width, full) + "\n" + legend(graph, matrix, {});
    }
    // One letter for each kind of path; the legend has the figures.
    std::map<Class, char> letters;
    for (const auto& [kind, example] : classes_of(matrix)) {
      if (letters.size() < 26) letters.emplace(kind, static_cast<char>('a' + letters.size()));
    }
    const size_t width = fmt::formatted_size("{}", ends - 1);
    const auto letter = [&](const Path& path) { return std::string(1, letters.at(class_of(path))); };
    if (letters.size() == classes_of(matrix).size() && fits(width)) {
      return table(matrix, width, letter) + "\n" + legend(graph, matrix, letters);
    }
  }
  std::string text;
  if (matrix.paths.size() < ends) text = fmt::format("paths from the first {} of {} ends\n", matrix.paths.size(), ends);
  return text + legend(graph, matrix, {});
}

}  // namespace tutti::tools
