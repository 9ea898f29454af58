#include "topo/link_figures.hpp"

#include <algorithm>
#include <charconv>

namespace tutti::topo {
namespace {

// Models of Intel's family 6, as NCCL distinguishes them (src/graph/topo.cc): the first of a generation.
constexpr int kSkylakeServer = 0x55, kSapphireRapids = 0x8F, kEmeraldRapids = 0xCF;

constexpr double kFastest = 1024;  // GT/s; more is a mistake
constexpr uint32_t kMaxLanes = 32;

// hwloc gives a link's rate after its line code, 128/130 from 8 GT/s on: GB/s for each GT/s and lane.
constexpr double kAfterLineCode = 128.0 / 130 / 8;

double latency_of(NodeKind child) { return child == NodeKind::Bridge ? figures::pcie_switch.us : figures::pcie.us; }

Link unknown_pci(NodeId child, NodeId parent, NodeKind kind) {
  return {.a = child,
          .b = parent,
          .kind = LinkKind::Pci,
          .width = 16,
          .gbps = figures::pcie_unknown.gbps,
          .us = latency_of(kind),
          .assumed = true};
}

}  // namespace

std::vector<LinkFigureInfo> link_figure_table() {
  return {
#define TUTTI_LINK_FIGURE(name, gbps, us, of, meaning, source) {#name, {gbps, us}, of, meaning, source},
#include "topo/link_figures.def"
  };
}

LinkFigure socket_figure(const ProcessorId& processor) {
  if (processor.vendor == "AuthenticAMD") return figures::socket_amd;
  if (processor.vendor == "GenuineIntel") {
    if (processor.family != 6 || processor.model < kSkylakeServer) return figures::socket_intel_broadwell;
    if (processor.model < kSapphireRapids) return figures::socket_intel_skylake;
    return processor.model < kEmeraldRapids ? figures::socket_intel_sapphire_rapids
                                            : figures::socket_intel_emerald_rapids;
  }
  return processor.arch.starts_with("ppc64") ? figures::socket_power9 : figures::socket_other;
}

LinkFigure nvlink_figure(int sm) {
  if (sm >= 100) return figures::nvlink_sm100;
  if (sm >= 90) return figures::nvlink_sm90;
  if (sm == 86) return figures::nvlink_sm86;
  if (sm >= 80 || sm <= 0) return figures::nvlink_sm80;
  return sm >= 70 ? figures::nvlink_sm70 : figures::nvlink_sm60;
}

Link pci_link(NodeId child, NodeId parent, NodeKind kind, double gts, uint32_t lanes) {
  Link link = unknown_pci(child, parent, kind);
  link.assumed = gts <= 0 || lanes == 0;
  if (lanes > 0) link.width = std::min(lanes, kMaxLanes);
  link.gbps = (gts > 0 ? gts : 8) * link.width * figures::pcie.gbps;
  return link;
}

Link pci_link_of_rate(NodeId child, NodeId parent, NodeKind kind, double raw_gbps) {
  if (raw_gbps <= 0 || raw_gbps > kFastest * kMaxLanes) return unknown_pci(child, parent, kind);
  Link link = unknown_pci(child, parent, kind);
  link.assumed = false;
  link.gbps = raw_gbps / kAfterLineCode * figures::pcie.gbps;
  return link;
}

double parse_gts(std::string_view text) {
  double gts = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), gts);
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  const bool is_rate = error == std::errc() && (unit.starts_with(" GT/s") || unit.starts_with("GT/s"));
  return is_rate && gts > 0 && gts <= kFastest ? gts : 0;
}

}  // namespace tutti::topo
