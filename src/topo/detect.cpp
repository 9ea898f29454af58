#include "topo/detect.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "base/format.hpp"
#include "topo/cgroup.hpp"
#include "topo/device.hpp"
#include "topo/hwloc_topology.hpp"
#include "topo/import.hpp"
#include "topo/link_figures.hpp"
#include "topo/nvml.hpp"
#include "topo/ports.hpp"
#include "topo/processors.hpp"
#include "topo/xml_file.hpp"

namespace tutti::topo {
namespace {

struct Description {
  std::string xml;
  bool is_this_one = true;
};

/// hwloc's view as its XML, which has one reader (import_hwloc.cpp).
Description ask_hwloc() {
  const HwlocTopology topology = load_hwloc(HwlocScope::Devices);
  char* text = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(topology.get(), &text, &length, 0) != 0) {
    throw_error(Code::SystemError, "hwloc cannot describe the machine: {}", std::strerror(errno));
  }
  const auto release = [&](char* buffer) { hwloc_free_xmlbuffer(topology.get(), buffer); };
  const std::unique_ptr<char, decltype(release)> owner(text, release);
  return {std::string(text), hwloc_topology_is_thissystem(topology.get()) != 0};
}

NodeId find_device(const Graph& graph, NodeKind kind, const std::string& address) {
  for (const NodeId id : graph.all(kind)) {
    if (!address.empty() && graph.nodes[id].address == address) return id;
  }
  return kNoNode;
}

NodeId numa_node(const Graph& graph, int number) {
  for (const NodeId id : graph.all(NodeKind::Numa)) {
    if (number >= 0 && graph.nodes[id].number == number) return id;
  }
  return device_root(graph, 0, {}).node;
}

/// A device that hwloc does not see: containers may hide PCI.
NodeId add_hidden(Graph& graph, Node node, int numa) {
  node.parent = numa_node(graph, numa);
  const NodeKind kind = node.kind;
  const NodeId parent = node.parent, id = graph.add(std::move(node));
  graph.connect(pci_link(id, parent, kind, 0, 0));
  return id;
}

void add_ports(Graph& graph, const std::string& root) {
  for (const PortReport& port : read_ports(root)) {
    NodeId id = find_device(graph, NodeKind::Nic, port.address);
    if (id == kNoNode) id = add_hidden(graph, {.kind = NodeKind::Nic, .address = port.address}, port.numa);
    Node& nic = graph.nodes[id];
    nic.name = port.name;
    nic.assumed = port.active && port.mbps <= 0;
    nic.port = port_rate(port.mbps);
    if (nic.assumed) nic.port = (port.rdma ? figures::port_unknown : figures::port_ethernet_unknown).gbps;
    if (port.active) continue;
    nic.port = 0;
    graph.notes.push_back(fmt::format("{}: no port is up, so nothing goes over it", label(graph, id)));
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

void add_gpus(Graph& graph, const std::string& library) {
  if (library.empty()) return;
  const NvmlReport report = read_nvml(library);
  if (!report.problem.empty()) graph.notes.push_back(report.problem + ": nothing is known of NVLinks");
  if (report.gpus.empty()) return;
  for (const NodeId gpu : graph.all(NodeKind::Gpu)) graph.nodes[gpu].number = -1;
  NvLinks links;
  int number = 0;
  for (const GpuReport& gpu : report.gpus) {
    NodeId id = find_device(graph, NodeKind::Gpu, gpu.address);
    if (id == kNoNode) id = add_hidden(graph, {.kind = NodeKind::Gpu, .address = gpu.address}, -1);
    Node& node = graph.nodes[id];
    node.number = number++;
    node.sm = gpu.sm;
    node.bytes = gpu.bytes;
    if (!gpu.model.empty()) node.model = gpu.model;
    for (const GpuReport::NvLink& link : gpu.links) links.add(id, link.peer, link.kind, 1);
  }
  links.connect(graph, 0);
  graph.ranks.clear();
  number_gpus(graph, 0);
}

Graph detect(const Sources& sources) {
  const Description description = sources.hwloc_xml.empty() ? ask_hwloc() : Description{sources.hwloc_xml};
  Graph graph = import_hwloc(XmlFile(description.xml, "hwloc's description"));
  if (!description.is_this_one) return graph;
  Node& host = graph.nodes[0];
  if (host.name.empty()) host.name = host_name();
  if (sources.hwloc_xml.empty()) host.usable = allowed_cores();
  const double quota = core_quota(sources.root);
  host.quota = std::isfinite(quota) ? quota : 0;
  add_ports(graph, sources.root);
  add_gpus(graph, sources.nvml);
  check(graph);
  return graph;
}

const Graph& local_topology() {
  static const Graph kGraph = detect();
  return kGraph;
}

}  // namespace tutti::topo
