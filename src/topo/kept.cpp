// The topology of this machine, kept for the boot.
#include <mutex>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "topo/detect.hpp"
#include "topo/graph_json.hpp"

namespace tutti::topo {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;  // bytes

bool is_another_machine() { return foreign_env("HWLOC_XMLFILE") || foreign_env("HWLOC_SYNTHETIC"); }

/// "" where nothing can be kept.
std::string path_of_boot() {
  const std::string folder = cache_folder();
  if (folder.empty() || is_another_machine()) return "";
  const auto boot = read_file("/proc/sys/kernel/random/boot_id", kMaxText, false);
  return boot ? fmt::format("{}/topology-{}", folder, boot->substr(0, boot->find('\n'))) : "";
}

Graph detect_shared() {
  Graph graph = detect({.nvml = ""});
  for (Node& node : graph.nodes) node.usable.clear(), node.quota = 0;
  return graph;
}

Graph load() {
  const std::string path = path_of_boot();
  if (path.empty()) return detect_shared();
  try {
    if (const auto text = read_file(path, kMaxText, true)) return graph_of_json(*text, path);
  } catch (const Error& error) {
    log_debug("the kept topology is not used: {}", error.what());
  }
  Graph graph = detect_shared();
  try {
    write_private(path, to_json(graph));
  } catch (const Error& error) {
    log_debug("the topology is not kept: {}", error.what());
  }
  return graph;
}

}  // namespace

const Graph& gpu_topology() {
  static const Graph kGraph = [] {
    Graph graph = kept_topology();
    add_gpus(graph, Sources{}.nvml);
    return graph;
  }();
  return kGraph;
}

NodeId find_gpu(const Graph& graph, NodeId host, const std::string& address) {
  for (const NodeId gpu : graph.all(NodeKind::Gpu)) {
    if (graph.nodes[gpu].address == address && graph.host_of(gpu) == host) return gpu;
  }
  return kNoNode;
}

const Graph& kept_topology() {
  static const Graph kGraph = load();
  return kGraph;
}

}  // namespace tutti::topo
