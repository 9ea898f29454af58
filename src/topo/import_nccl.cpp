// NCCL's topology XML: <system> of <cpu> (NUMA nodes) of <pci>, <gpu>, <nvlink>, <nic>, <net>.
//
// Dumps differ from machine to machine: attributes are missing, speeds are empty or "-1", NVSwitches are hidden from a
// virtual machine (target "fffffff:ffff:ff"), NICs stand outside of PCI. What NCCL takes for granted then is taken here
// too, and marked as assumed. A number that is none, and a device that occurs twice, are errors.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/format.hpp"
#include "topo/device.hpp"
#include "topo/import.hpp"
#include "topo/link_figures.hpp"
#include "topo/nvlink.hpp"
#include "topo/xml_file.hpp"

namespace tutti::topo {
namespace {

constexpr int64_t kMaxLanes = 32, kMaxNvLinks = 1024, kFastestPort = 100'000'000;  // Mb/s
constexpr size_t kMaxCpus = 1024;
constexpr int64_t kMax = 1 << 20;  // of numbers of things

class Reader {
 public:
  explicit Reader(const XmlFile& file) : file_(file) {}

  Graph read() {
    file_.number(file_.root(), "version", 1, 1, 1);
    for (const pugi::xml_node cpu : file_.root().children("cpu")) add_cpu(cpu);
    if (hosts_.empty()) file_.fail(file_.root(), "<system> has no <cpu>");
    for (auto& [hash, host] : hosts_) {
      host.nvlinks.connect(graph_, host.node);
      number_gpus(graph_, host.node);
    }
    order_ranks();
    note_missing_nvlink(graph_);
    return std::move(graph_);
  }

 private:
  struct Host {
    NodeId node = kNoNode;
    std::vector<NodeId> cpus;
    std::set<std::string> addresses;
    NvLinks nvlinks;
  };

  /// Dumps of several hosts distinguish them by host_hash.
  Host& host_of(pugi::xml_node cpu) {
    const std::string hash = file_.text(cpu, "host_hash");
    auto at = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& known) { return known.first == hash; });
    if (at != hosts_.end()) return at->second;
    hosts_.emplace_back(hash, Host{});
    hosts_.back().second.node = graph_.add({.kind = NodeKind::Host});
    return hosts_.back().second;
  }

  void add_cpu(pugi::xml_node xml) {
    Host& host = host_of(xml);
    Node node{.kind = NodeKind::Numa, .parent = host.node};
    node.number = static_cast<int>(file_.number(xml, "numaid", -1, -1, kMax));
    if (node.number < 0) node.name = "of unknown number";
    const ProcessorId id{file_.text(xml, "vendor"), file_.text(xml, "arch"),
                         static_cast<int>(file_.number(xml, "familyid", -1, -1, kMax)),
                         static_cast<int>(file_.number(xml, "modelid", -1, -1, kMax))};
    node.model = id.vendor.empty() ? id.arch : id.vendor;
    try {
      node.processors = parse_mask(xml.attribute("affinity").value());
    } catch (const Error& error) {
      file_.fail(xml, "affinity: {}", error.what());
    }
    const NodeId cpu = graph_.add(std::move(node));
    const LinkFigure figure = socket_figure(id);
    for (const NodeId other : host.cpus) {
      graph_.connect({.a = other, .b = cpu, .kind = LinkKind::Socket, .gbps = figure.gbps, .us = figure.us});
    }
    if (host.cpus.size() == kMaxCpus) file_.fail(xml, "more than {} <cpu>", kMaxCpus);
    host.cpus.push_back(cpu);
    add_children(host, cpu, xml);
  }

  void add_children(Host& host, NodeId parent, pugi::xml_node xml) {
    for (const pugi::xml_node child : xml.children()) {
      const std::string_view name = child.name();
      if (name == "pci") add_pci(host, parent, child);
      if (name == "nic") add_nic(parent, "", child, {});
    }
  }

  /// Does it have a GPU or a NIC, or is it one?
  bool leads_somewhere(pugi::xml_node pci) const {
    const DeviceKind kind = kind_of(pci);
    if (kind == DeviceKind::Gpu || kind == DeviceKind::Nic) return true;
    const auto inner = pci.children("pci");
    return std::any_of(inner.begin(), inner.end(), [&](pugi::xml_node child) { return leads_somewhere(child); });
  }

  static DeviceKind kind_of(pugi::xml_node pci) {
    if (pci.child("gpu")) return DeviceKind::Gpu;
    if (pci.child("nic")) return DeviceKind::Nic;
    if (pci.child("pci")) return DeviceKind::Bridge;
    return device_kind(parse_hex(pci.attribute("class").value()), parse_hex(pci.attribute("vendor").value()));
  }

  void add_pci(Host& host, NodeId parent, pugi::xml_node xml) {
    if (!leads_somewhere(xml)) return;
    const DeviceKind kind = kind_of(xml);
    const std::string address = address_of(file_.text(xml, "busid"));
    if (!address.empty() && !host.addresses.insert(address).second) {
      file_.fail(xml, "there are two devices with busid=\"{}\"", address);
    }
    if (kind == DeviceKind::Nic) {
      add_nic(parent, address, xml.child("nic"), xml);
      return;
    }
    Node node{.kind = kind == DeviceKind::Gpu ? NodeKind::Gpu : NodeKind::Bridge, .parent = parent, .address = address};
    if (kind == DeviceKind::Gpu) {
      node.sm = static_cast<int>(file_.number(xml.child("gpu"), "sm", 0, 0, 1000));
      node.number = static_cast<int>(file_.number(xml.child("gpu"), "dev", -1, -1, kMax));
    }
    const NodeKind node_kind = node.kind;
    const NodeId id = graph_.add(std::move(node));
    graph_.connect(link_of(xml, id, parent, node_kind));
    if (kind == DeviceKind::Gpu) {
      add_gpu(host, id, xml.child("gpu"));
    } else {
      add_children(host, id, xml);
    }
  }

  Link link_of(pugi::xml_node xml, NodeId child, NodeId parent, NodeKind kind) const {
    const auto lanes = static_cast<uint32_t>(std::max<int64_t>(0, file_.number(xml, "link_width", 0, -1, kMaxLanes)));
    return pci_link(child, parent, kind, parse_gts(xml.attribute("link_speed").value()), lanes);
  }

  void add_gpu(Host& host, NodeId gpu, pugi::xml_node xml) {
    if (xml.attribute("rank")) given_rank_[gpu] = file_.number(xml, "rank", -1, -1, kMax);
    for (const pugi::xml_node link : xml.children("nvlink")) {
      const std::string target = address_of(file_.text(link, "target"));
      if (target.empty()) file_.fail(link, "an <nvlink> without a target");
      const uint32_t code = parse_hex(link.attribute("tclass").value());
      NvLinks::Peer peer = NvLinks::Peer::Unknown;
      if (code >> 16 == 0x03) peer = NvLinks::Peer::Gpu;
      if (code == 0x068000) peer = NvLinks::Peer::Switch;
      if (code == 0x068001) peer = NvLinks::Peer::Processor;
      host.nvlinks.add(gpu, target, peer, static_cast<uint32_t>(file_.number(link, "count", 1, 0, kMaxNvLinks)));
    }
  }

  /// All ports of a device are one NIC. `pci`: null if it is outside of PCI.
  void add_nic(NodeId parent, const std::string& address, pugi::xml_node nic, pugi::xml_node pci) {
    Node node{.kind = NodeKind::Nic, .parent = parent, .address = address};
    for (const pugi::xml_node net : nic.children("net")) {
      if (!node.name.empty()) node.name += '+';
      node.name += file_.text(net, "name");
      const int64_t mbps = file_.number(net, "speed", 0, -1, kFastestPort);
      node.port += mbps > 0 ? port_rate(static_cast<double>(mbps)) : figures::port_ethernet_unknown.gbps;
      node.assumed = node.assumed || mbps <= 0;
    }
    if (node.port <= 0) {  // a file for a kind of machine: ports are found at run time
      node.port = figures::port_unknown.gbps;
      node.assumed = true;
    }
    const NodeId id = graph_.add(std::move(node));
    graph_.connect(link_of(pci, id, parent, NodeKind::Nic));
  }

  /// Ranks by the attribute of that name, if these are 0, 1, 2, …; else GPUs in order.
  void order_ranks() {
    std::map<int64_t, NodeId> by_rank;
    for (const auto& [gpu, rank] : given_rank_) by_rank.emplace(rank, gpu);
    const bool all = by_rank.size() == graph_.ranks.size() && !by_rank.empty() && by_rank.begin()->first == 0 &&
                     by_rank.rbegin()->first + 1 == static_cast<int64_t>(by_rank.size());
    if (!all) return;
    for (const auto& [rank, gpu] : by_rank) graph_.ranks[static_cast<size_t>(rank)] = gpu;
  }

  const XmlFile& file_;
  Graph graph_;
  std::vector<std::pair<std::string, Host>> hosts_;
  std::map<NodeId, int64_t> given_rank_;
};

}  // namespace

Graph import_nccl(const XmlFile& file) {
  return file.naming([&] { return Reader(file).read(); });
}

}  // namespace tutti::topo
