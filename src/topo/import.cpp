#include "topo/import.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/format.hpp"
#include "topo/graph_json.hpp"
#include "topo/xml_file.hpp"

namespace tutti::topo {

Graph import_text(std::string_view text, const std::string& name) {
  const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) throw_error(Code::InvalidArgument, "{}:1: the file is empty", name);
  if (text[first] == '{') return graph_of_json(text, name);
  if (text[first] != '<') {
    throw_error(Code::InvalidArgument, "{}:1: neither XML (of NCCL or hwloc) nor a topology in JSON", name);
  }
  const XmlFile file(text, name);
  const std::string_view root = file.root().name();
  Graph graph;
  if (root == "system") {
    graph = import_nccl(file);
  } else if (root == "topology") {
    graph = import_hwloc(file);
  } else if (root == "graphs") {
    file.fail(file.root(),
              "<graphs>: this is NCCL's list of rings and trees (NCCL_GRAPH_DUMP_FILE); give a topology "
              "(NCCL_TOPO_DUMP_FILE)");
  } else {
    file.fail(file.root(), "<{}>: expected <system>, as NCCL writes, or <topology>, as hwloc does", root.substr(0, 50));
  }
  check(graph);  // of the readers: it finds nothing, whatever the file says
  return graph;
}

Graph import_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw_error(Code::SystemError, "{}: {}", path, error ? error.message() : "not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (text.size() <= kLongestJson && (file.read(piece.data(), piece.size()) || file.gcount() > 0)) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof() && file.fail()) throw_error(Code::SystemError, "{}: {}", path, std::strerror(errno));
  return import_text(text, path);
}

}  // namespace tutti::topo
