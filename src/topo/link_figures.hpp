// Published figures of links by kind, and the links that are made with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/graph.hpp"

namespace tutti::topo {

struct LinkFigure {
  double gbps = 0;  ///< GB/s in each direction, of `of`
  double us = 0;    ///< µs
};

/// topo/link_figures.def documents each: of what it is, and its source.
namespace figures {
#define TUTTI_LINK_FIGURE(name, gbps, us, of, meaning, source) inline constexpr LinkFigure name{gbps, us};
#include "topo/link_figures.def"
}  // namespace figures

struct LinkFigureInfo {
  const char* name;
  LinkFigure figure;
  const char* of;
  const char* meaning;
  const char* source;
};

/// All rows of the table.
std::vector<LinkFigureInfo> link_figure_table();

/// What a processor says of itself, in Linux' words; empty or -1: unknown.
struct ProcessorId {
  std::string vendor;  ///< "GenuineIntel", "AuthenticAMD"
  std::string arch;    ///< "x86_64", "ppc64"
  int family = -1, model = -1;
};
LinkFigure socket_figure(const ProcessorId& processor);

/// Of one NVLink of a GPU with this compute capability (0: unknown, taken as 80).
LinkFigure nvlink_figure(int sm);

/// A link of `lanes` lanes of `gts` GT/s (0: unknown) from a device or switch to what it is plugged into.
Link pci_link(NodeId child, NodeId parent, NodeKind child_kind, double gts, uint32_t lanes);
/// The same, of a raw rate in GB/s as hwloc gives it; 0: unknown.
Link pci_link_of_rate(NodeId child, NodeId parent, NodeKind child_kind, double raw_gbps);

/// Reads "16 GT/s", "16.0 GT/s PCIe", "32.0 GT/s PCIe"; 0 for anything else ("", "Unknown speed").
double parse_gts(std::string_view text);

}  // namespace tutti::topo
