// The drawing of `tutti topo --svg`: hosts side by side, the network below all.
#include <algorithm>
#include <tuple>

#include "base/format.hpp"
#include "tools/topo/canvas.hpp"
#include "tools/topo/host_picture.hpp"
#include "tools/topo/overlay.hpp"
#include "tools/topo/view.hpp"

namespace tutti::tools {
namespace {

using topo::Graph;
using topo::LinkKind;
using topo::NodeKind;

constexpr double kMargin = 28;
constexpr size_t kMaxGroups = 6;  // that are drawn
constexpr double kTitle = 56, kLegend = 34;

void legend(Canvas& canvas, double x, double y) {
  for (const auto& [kind, name, wide] : {std::tuple(LinkKind::Socket, "between packages", 130.0),
                                         {LinkKind::Pci, "PCIe", 76.0},
                                         {LinkKind::NvLink, "NVLink", 88.0},
                                         {LinkKind::Network, "network", 92.0}}) {
    canvas.path(fmt::format("M{:.1f} {:.1f} h22", x, y - 4), paint_of(kind), 48);
    canvas.text(x + 30, y, 11, "#4a5563", name);
    x += wide + 22;
  }
}

double legends(Canvas& canvas, double left, double top) {
  legend(canvas, left, top + kLegend);
  canvas.text(left, top + kLegend + 20, 11, "#6b7684",
              "Figures: GB/s in each direction; \"18x 371\": 18 NVLinks together. \"?\": assumed, because unknown.");
  return top + kLegend + 40;
}

std::vector<HostGroup> each_host(const Graph& graph) {
  std::vector<HostGroup> groups;
  for (const topo::NodeId host : graph.all(NodeKind::Host)) groups.push_back({.first = host});
  return groups;
}

std::string draw(const Graph& graph, const std::string& title, std::vector<HostGroup> groups, const Overlay& overlay) {
  const size_t left_out = groups.size() - std::min(groups.size(), kMaxGroups);
  groups.resize(groups.size() - left_out);
  std::vector<HostPicture> pictures;
  double width = kMargin, height = 0;
  for (const HostGroup& group : groups) {
    pictures.emplace_back(graph, group, overlay.look);
    width += pictures.back().width() + kMargin;
    height = std::max(height, pictures.back().height());
  }
  width = std::max(width, 640.0);
  const bool network = !graph.all(NodeKind::Fabric).empty();
  const double network_y = kTitle + height + kRowGap + 12;
  double end = network ? network_y + kBarHeight : kTitle + height;
  Canvas canvas;
  canvas.text(kMargin, 34, 19, "#1d2733", title, "start", "bold");
  double x = kMargin;
  std::map<topo::NodeId, Box> boxes;
  for (HostPicture& picture : pictures) {
    picture.draw(canvas, x, kTitle, network ? network_y : 0);
    x += picture.width() + kMargin;
    boxes.insert(picture.boxes().begin(), picture.boxes().end());
  }
  if (network) {
    const Box bar{kMargin, network_y, width - 2 * kMargin, kBarHeight};
    canvas.box(bar, kNetworkPaint);
    canvas.text(bar.centre(), bar.y + 19, 12, kNetworkPaint.text,
                left_out == 0 ? "network" : fmt::format("network (and {} more hosts)", left_out), "middle", "bold");
  }
  if (overlay.over) overlay.over(canvas, boxes);
  end = overlay.below ? overlay.below(canvas, kMargin, end, width - 2 * kMargin) : legends(canvas, kMargin, end);
  return canvas.take(width, end);
}

}  // namespace

std::string draw_topology(const Graph& graph, const std::string& title) {
  return draw(graph, title, alike_hosts(graph), {});
}

std::string draw_topology(const Graph& graph, const std::string& title, const Overlay& overlay) {
  return draw(graph, title, each_host(graph), overlay);
}

}  // namespace tutti::tools
