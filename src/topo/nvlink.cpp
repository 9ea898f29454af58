#include "topo/nvlink.hpp"

#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "topo/link_figures.hpp"

namespace tutti::topo {
namespace {

constexpr const char* kMissing = "no NVLink between the";

/// The GPUs of each host that has several.
std::map<NodeId, std::vector<NodeId>> gpus_by_host(const Graph& graph) {
  std::map<NodeId, std::vector<NodeId>> hosts;
  for (const NodeId gpu : graph.all(NodeKind::Gpu)) hosts[graph.host_of(gpu)].push_back(gpu);
  std::erase_if(hosts, [](const auto& host) { return host.second.size() < 2; });
  return hosts;
}

bool has_nvlink(const Graph& graph, NodeId host) {
  return std::any_of(graph.links.begin(), graph.links.end(),
                     [&](const Link& link) { return link.kind == LinkKind::NvLink && graph.host_of(link.a) == host; });
}

/// Compute capabilities of GPUs that are sold with NVLink, as SXM modules or with bridges; 0: unknown.
bool may_have_nvlink(int sm) {
  return sm == 0 || sm == 60 || sm == 70 || sm == 80 || sm == 90 || sm == 100 || sm == 103;
}

}  // namespace

void note_missing_nvlink(Graph& graph) {
  for (const auto& [host, gpus] : gpus_by_host(graph)) {
    if (!may_have_nvlink(graph.nodes[gpus.front()].sm) || has_nvlink(graph, host)) continue;
    graph.notes.push_back(
        fmt::format("{} {} GPUs of {} is known: paths between them go over PCIe. If they have NVLink, which files for "
                    "virtual machines leave out, say --nvlink GB/s (of each GPU, one direction; H100: 450)",
                    kMissing, gpus.size(), label(graph, host)));
  }
}

void add_nvlink(Graph& graph, double gbps) {
  const auto hosts = gpus_by_host(graph);
  if (hosts.empty()) throw_error(Code::InvalidArgument, "--nvlink: no host has several GPUs");
  for (const auto& [host, gpus] : hosts) {
    if (has_nvlink(graph, host)) {
      throw_error(Code::InvalidArgument, "--nvlink: the NVLinks of {} are known already; leave it out",
                  label(graph, host));
    }
    const NodeId nvswitch = graph.add({.kind = NodeKind::NvSwitch, .parent = host});
    const double us = nvlink_figure(graph.nodes[gpus.front()].sm).us;
    for (const NodeId gpu : gpus) {
      graph.connect({.a = gpu, .b = nvswitch, .kind = LinkKind::NvLink, .gbps = gbps, .us = us});
    }
  }
  std::erase_if(graph.notes, [](const std::string& note) { return note.starts_with(kMissing); });
}

}  // namespace tutti::topo
