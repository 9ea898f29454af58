// The topology of this machine, kept for the boot.
#include <unistd.h>

#include <algorithm>
#include <iterator>
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

size_t processors_here() {
  const int64_t known = sysconf(_SC_NPROCESSORS_CONF);
  return known > 0 ? static_cast<size_t>(known) : 0;
}

Graph load() {
  const std::string path = path_of_boot();
  if (path.empty()) return detect_shared();
  try {
    if (const auto text = read_file(path, kMaxText, true)) {
      Graph kept = graph_of_json(*text, path);
      const std::string why = why_of_another(kept, allowed_cores(), processors_here());
      if (why.empty()) return kept;
      log_debug("the kept topology {} is of another machine: it {}", path, why);
    }
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

std::string why_of_another(const Graph& host, const Cores& allowed, size_t processors) {
  const std::vector<NodeId> hosts = host.all(NodeKind::Host);
  if (hosts.size() != 1) return fmt::format("has {} hosts", hosts.size());
  const Cores& described = host.nodes[hosts.front()].processors;
  if (described.empty()) return "";
  Cores missing;
  std::set_difference(allowed.begin(), allowed.end(), described.begin(), described.end(), std::back_inserter(missing));
  if (!missing.empty()) {
    return fmt::format("has processors {}, and this process may run on {} too", to_text(described), to_text(missing));
  }
  if (processors > 0 && described.size() > processors) {
    return fmt::format("has {} processors, and this machine {}", described.size(), processors);
  }
  return "";
}

void refuse_description_of_another() {
  if (!is_another_machine()) return;
  const char* const variable = foreign_env("HWLOC_XMLFILE") ? "HWLOC_XMLFILE" : "HWLOC_SYNTHETIC";
  std::string why;
  try {
    why = why_of_another(kept_topology(), allowed_cores(), processors_here());
  } catch (const Error& error) {
    throw_error(Code::InvalidUsage, "the topology that {} names cannot be used: {}; unset it for jobs", variable,
                error.what());
  }
  if (why.empty()) return;
  throw_error(Code::InvalidUsage, "the machine that {} describes {}: unset it for jobs", variable, why);
}

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
