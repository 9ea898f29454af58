#include "topo/device.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/format.hpp"
#include "topo/link_figures.hpp"

namespace tutti::topo {
namespace {

constexpr uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;

std::map<std::string, NodeId> gpus_by_address(const Graph& graph, NodeId host) {
  std::map<std::string, NodeId> found;
  for (const NodeId gpu : graph.all(NodeKind::Gpu)) {
    if (graph.host_of(gpu) == host) found.emplace(graph.nodes[gpu].address, gpu);
  }
  return found;
}

/// The NUMA node or package that a device hangs from.
NodeId root_of(const Graph& graph, NodeId device) {
  while (device != kNoNode && graph.nodes[device].kind != NodeKind::Numa &&
         graph.nodes[device].kind != NodeKind::Package) {
    device = graph.nodes[device].parent;
  }
  return device;
}

void connect_nvlinks(Graph& graph, NodeId a, NodeId b, uint32_t count, double us) {
  const double gbps = nvlink_figure(graph.nodes[a].sm).gbps * count;
  graph.connect({.a = a, .b = b, .kind = LinkKind::NvLink, .width = count, .gbps = gbps, .us = us});
}

}  // namespace

DeviceKind device_kind(uint32_t class_code, uint32_t vendor) {
  const uint32_t base = class_code >> 16, sub = class_code >> 8 & 0xff;
  const bool accelerates = vendor == 0 || vendor == kNvidia || vendor == kAmd;
  if (base == 0x06 && sub == 0x04) return DeviceKind::Bridge;
  if (base == 0x06 && sub == 0x80) return DeviceKind::NvSwitch;
  if (base == 0x02) return DeviceKind::Nic;
  if (base == 0x03 && sub == 0x02) return DeviceKind::Gpu;
  if (base == 0x03 && sub == 0x80) return accelerates || vendor == kIntel ? DeviceKind::Gpu : DeviceKind::Other;
  if (base == 0x03) return accelerates ? DeviceKind::Gpu : DeviceKind::Other;
  return base == 0x12 && vendor == kAmd ? DeviceKind::Gpu : DeviceKind::Other;
}

uint32_t parse_hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() ? value : 0;
}

double port_rate(double mbps) { return mbps / 8000 * figures::port.gbps; }

std::string address_of(std::string_view text) {
  std::string address(text);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return address.size() == 16 && address.starts_with("0000") && address[8] == ':' ? address.substr(4) : address;
}

void NvLinks::add(NodeId gpu, const std::string& address, Peer peer, uint32_t count) {
  Reported& reported = reported_[gpu][address];
  reported.peer = peer;
  reported.count += count;
}

void NvLinks::connect(Graph& graph, NodeId host) const {
  const std::map<std::string, NodeId> gpus = gpus_by_address(graph, host);
  std::map<std::pair<NodeId, NodeId>, uint32_t> pairs;  // each end's count, or the larger one if both report it
  std::map<NodeId, uint32_t> to_switches, to_processor;
  std::set<std::string> switches;
  for (const auto& [gpu, peers] : reported_) {
    for (const auto& [address, reported] : peers) {
      const auto peer = gpus.find(address);
      if (reported.count == 0) continue;
      if (reported.peer == Peer::Processor) {
        to_processor[gpu] += reported.count;
      } else if (peer != gpus.end() && peer->second != gpu) {
        uint32_t& count = pairs[std::minmax(gpu, peer->second)];
        count = std::max(count, reported.count);
      } else if (peer != gpus.end()) {
        graph.notes.push_back(fmt::format("the NVLinks of {} lead to itself: left out", label(graph, gpu)));
      } else if (reported.peer == Peer::Gpu) {
        graph.notes.push_back(
            fmt::format("the NVLinks of {} to {} lead to no known GPU: left out", label(graph, gpu), address));
      } else {
        to_switches[gpu] += reported.count;
        switches.insert(address);
      }
    }
  }
  for (const auto& [ends, count] : pairs) {
    connect_nvlinks(graph, ends.first, ends.second, count, nvlink_figure(graph.nodes[ends.first].sm).us);
  }
  for (const auto& [gpu, count] : to_processor) {
    connect_nvlinks(graph, gpu, root_of(graph, gpu), count, nvlink_figure(graph.nodes[gpu].sm).us);
  }
  if (to_switches.empty()) return;
  const NodeId all =
      graph.add({.kind = NodeKind::NvSwitch, .parent = host, .count = static_cast<uint32_t>(switches.size())});
  for (const auto& [gpu, count] : to_switches) connect_nvlinks(graph, gpu, all, count, figures::nvswitch.us);
}

void number_gpus(Graph& graph, NodeId host) {
  std::vector<NodeId> gpus;
  std::set<int> taken;
  for (const NodeId gpu : graph.all(NodeKind::Gpu)) {
    if (graph.host_of(gpu) != host) continue;
    gpus.push_back(gpu);
    if (!taken.insert(graph.nodes[gpu].number).second) graph.nodes[gpu].number = -1;
  }
  int next = 0;
  for (const NodeId gpu : gpus) {
    if (graph.nodes[gpu].number >= 0) continue;
    while (taken.contains(next)) ++next;
    taken.insert(graph.nodes[gpu].number = next);
  }
  std::stable_sort(gpus.begin(), gpus.end(),
                   [&](NodeId a, NodeId b) { return graph.nodes[a].number < graph.nodes[b].number; });
  graph.ranks.insert(graph.ranks.end(), gpus.begin(), gpus.end());
}

}  // namespace tutti::topo
