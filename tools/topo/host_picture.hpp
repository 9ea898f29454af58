// One host in the drawing of `tutti topo --svg`: from top to bottom packages and NUMA nodes with their cores, PCIe
// switches, devices, and the NVSwitches.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "tools/topo/canvas.hpp"
#include "tools/topo/view.hpp"

namespace tutti::tools {

inline constexpr double kRowGap = 46;     ///< between rows of boxes
inline constexpr double kBarHeight = 30;  ///< of NVSwitches and the network

/// How a picture draws links, where their kind does not say.
using LinkLook = std::function<LinkPaint(const topo::Link&)>;

/// One host's frame. Sizes are known when it is made; then it is drawn where the picture wants it.
class HostPicture {
 public:
  HostPicture(const topo::Graph& graph, const HostGroup& group, LinkLook look = {})
      : graph_(graph), group_(group), look_(std::move(look)), children_(children_of(graph)), up_(uplinks_of(graph)) {
    double processors = 0;
    for (const NodeId root : roots()) {
      processors = std::max(processors, area_size(root).height);
      depth_ = std::max(depth_, depth_below(root));
      inner_width_ += width_of(root) + kGap * 2;
    }
    processors_height_ = processors;
    const size_t devices = count(NodeKind::Gpu) + count(NodeKind::Nic);
    height_ = kHeader + kPad + processors + kPad;
    if (devices > 0) height_ += static_cast<double>(depth_ + 1) * kRowGap + depth_ * kSwitchHeight + kDeviceHeight;
    if (count(NodeKind::NvSwitch) > 0) height_ += kRowGap + kBarHeight;
    if (has_direct_nvlinks()) height_ += kRowGap;
    inner_width_ = std::max(inner_width_ - kGap * 2, 300.0);
  }

  /// What has been drawn, and where.
  const std::map<topo::NodeId, Box>& boxes() const { return boxes_; }
  double width() const { return inner_width_ + 2 * kPad; }
  double height() const { return height_; }

  /// `network_y`: how far down NICs' ports reach; 0: there is no network.
  void draw(Canvas& canvas, double x, double y, double network_y) {
    canvas_ = &canvas;
    frame(x, y);
    double at = x + kPad;
    for (const NodeId root : roots()) {
      const double wide = width_of(root);
      area({at, y + kHeader + kPad, wide, processors_height_}, root);
      devices(root, at, y + kHeader + kPad + processors_height_);
      at += wide + kGap * 2;
    }
    sockets();
    if (network_y > 0) ports(network_y);
    nvlinks(x, y);
  }

 private:
  using Graph = topo::Graph;
  using Link = topo::Link;
  using LinkKind = topo::LinkKind;
  using Node = topo::Node;
  using NodeId = topo::NodeId;
  using NodeKind = topo::NodeKind;

  static constexpr double kGap = 12, kPad = 14, kDeviceWidth = 92, kDeviceHeight = 58, kSwitchHeight = 30;
  static constexpr double kCore = 15, kCoreGap = 4, kHeader = 26;
  static constexpr size_t kCoresInARow = 8;

  static bool is_area(NodeKind kind) {
    return kind == NodeKind::Package || kind == NodeKind::Numa || kind == NodeKind::Complex || kind == NodeKind::Core;
  }

  std::vector<NodeId> children(NodeId id, bool areas) const {
    std::vector<NodeId> found;
    for (const NodeId child : children_[id]) {
      const NodeKind kind = graph_.nodes[child].kind;
      if (kind != NodeKind::NvSwitch && is_area(kind) == areas) found.push_back(child);
    }
    return found;
  }
  std::vector<NodeId> roots() const { return children(group_.first, true); }

  /// Devices of a root: those of the areas in it too.
  std::vector<NodeId> devices_of(NodeId area) const {
    std::vector<NodeId> found = children(area, false);
    for (const NodeId inner : children(area, true)) {
      const std::vector<NodeId> more = devices_of(inner);
      found.insert(found.end(), more.begin(), more.end());
    }
    return found;
  }

  size_t count(NodeKind kind) const {
    size_t number = 0;
    for (const NodeId id : graph_.all(kind)) number += graph_.host_of(id) == group_.first ? 1 : 0;
    return number;
  }

  int depth_below(NodeId node) const {
    int depth = 0;
    for (const NodeId child : children_[node]) {
      const bool bridge = graph_.nodes[child].kind == NodeKind::Bridge;
      depth = std::max(depth, depth_below(child) + (bridge ? 1 : 0));
    }
    return depth;
  }

  bool has_direct_nvlinks() const {
    return std::any_of(graph_.links.begin(), graph_.links.end(), [&](const Link& link) {
      return link.kind == LinkKind::NvLink && graph_.nodes[link.a].kind == NodeKind::Gpu &&
             graph_.nodes[link.b].kind == NodeKind::Gpu && graph_.host_of(link.a) == group_.first;
    });
  }

  double width_of(NodeId root) const {
    double devices = -kGap;
    for (const NodeId device : devices_of(root)) devices += device_width(device) + kGap;
    return std::max({area_size(root).width, devices, 150.0});
  }

  double device_width(NodeId node) const {
    if (graph_.nodes[node].kind != NodeKind::Bridge) return kDeviceWidth;
    double width = -kGap;
    for (const NodeId child : children_[node]) width += device_width(child) + kGap;
    return std::max(width, kDeviceWidth);
  }

  std::vector<NodeId> cores_of(NodeId area) const {
    std::vector<NodeId> cores;
    for (const NodeId child : children_[area]) {
      if (graph_.nodes[child].kind == NodeKind::Core) cores.push_back(child);
    }
    return cores;
  }

  /// Areas lie side by side in theirs, in rows of at most four; cores in a grid.
  struct Size {
    double width = 0, height = 0;
  };
  static constexpr size_t kAreasInARow = 4;
  Size area_size(NodeId id) const {
    const size_t cores = cores_of(id).size();
    const auto across = static_cast<double>(std::min(cores, kCoresInARow));
    const auto down = static_cast<double>((cores + kCoresInARow - 1) / kCoresInARow);
    Size size{across * (kCore + kCoreGap), down * (kCore + kCoreGap)};
    Size row;
    size_t in_row = 0;
    const auto close_row = [&] {
      size.width = std::max(size.width, row.width - kGap);
      size.height += row.height + (row.height > 0 ? kGap : 0);
      row = {};
      in_row = 0;
    };
    for (const NodeId child : children(id, true)) {
      if (graph_.nodes[child].kind == NodeKind::Core) continue;
      const Size inner = area_size(child);
      row.width += inner.width + kGap;
      row.height = std::max(row.height, inner.height);
      if (++in_row == kAreasInARow) close_row();
    }
    close_row();
    const double title = 7.0 * static_cast<double>(area_title(id).size());
    return {std::max(size.width, title) + 2 * kPad, size.height + kHeader + 8};
  }

  std::string area_title(NodeId id) const {
    const Node& node = graph_.nodes[id];
    if (node.kind != NodeKind::Complex) return label(graph_, id);
    return node.bytes == 0 ? "L3" : fmt::format("L3 {} MiB", node.bytes >> 20);
  }

  void frame(double x, double y) {
    for (size_t shadow = std::min<size_t>(group_.hosts - 1, 3); shadow > 0; --shadow) {
      const double shift = 6.0 * static_cast<double>(shadow);
      canvas_->box({x + shift, y + shift, width(), height_}, kHostPaint, 10);
    }
    canvas_->box({x, y, width(), height_}, kHostPaint, 10);
    std::string title = label(graph_, group_.first);
    if (group_.hosts > 1) title += fmt::format(" and {} alike", counted(group_.hosts - 1, "host"));
    canvas_->text(x + kPad, y + 22, 14, kHostPaint.text, title, "start", "bold");
  }

  void area(const Box& at, NodeId id) {
    const Node& node = graph_.nodes[id];
    const Paint& paint = node.kind == NodeKind::Package ? kPackagePaint
                         : node.kind == NodeKind::Numa  ? kNumaPaint
                                                        : kComplexPaint;
    canvas_->box(at, paint, 6, node.model);
    boxes_[id] = at;
    canvas_->text(at.x + 10, at.y + 17, node.kind == NodeKind::Complex ? 10 : 12, paint.text, area_title(id), "start",
                  node.kind == NodeKind::Complex ? "normal" : "bold");
    const double title = 8.0 * static_cast<double>(area_title(id).size());
    const std::string more = node.model.empty() ? to_text(node.processors) : node.model;
    if (node.kind != NodeKind::Complex && at.width > title + 6.0 * static_cast<double>(more.size()) + 24) {
      canvas_->text(at.x + at.width - 10, at.y + 17, 10, "#6b7f9c", more, "end");
    }
    double x = at.x + kPad, y = at.y + kHeader, row = 0;
    size_t in_row = 0;
    for (const NodeId child : children(id, true)) {
      if (graph_.nodes[child].kind == NodeKind::Core) continue;
      const Size inner = area_size(child);
      const bool alone = children(id, true).size() == 1;
      area({x, y, alone ? at.width - 2 * kPad : inner.width, inner.height}, child);
      x += inner.width + kGap;
      row = std::max(row, inner.height);
      if (++in_row < kAreasInARow) continue;
      x = at.x + kPad;
      y += row + kGap;
      row = 0;
      in_row = 0;
    }
    cores(id, at);
  }

  void cores(NodeId id, const Box& at) {
    const std::vector<NodeId> all = cores_of(id);
    for (size_t i = 0; i < all.size(); ++i) {
      const Node& core = graph_.nodes[all[i]];
      const Paint& paint = may_use(graph_, all[i]) ? kCorePaint : kIdleCorePaint;
      const Box box{at.x + kPad + static_cast<double>(i % kCoresInARow) * (kCore + kCoreGap),
                    at.y + kHeader + static_cast<double>(i / kCoresInARow) * (kCore + kCoreGap), kCore, kCore};
      canvas_->box(box, paint, 3, label(graph_, all[i]));
      canvas_->text(box.centre(), box.y + 10.5, core.number > 99 ? 6 : 8, paint.text, fmt::format("{}", core.number),
                    "middle");
    }
  }

  void devices(NodeId root, double x, double y) {
    double at = x;
    const std::vector<NodeId> all = devices_of(root);
    double wide = -kGap;
    for (const NodeId device : all) wide += device_width(device) + kGap;
    at += std::max(0.0, (width_of(root) - wide) / 2);
    for (const NodeId device : all) {
      place_device(device, at, y, 0);
      const Box& top = boxes_.at(graph_.nodes[device].parent);
      uplink(device, std::clamp(boxes_.at(device).centre(), top.x + 12, top.x + top.width - 12), top.bottom());
      at += device_width(device) + kGap;
    }
  }

  /// All devices stand in one row, below the deepest switch.
  void place_device(NodeId id, double x, double y, int level) {
    const Node& node = graph_.nodes[id];
    const double step = kRowGap + kSwitchHeight;
    if (node.kind != NodeKind::Bridge) {
      const Box box{x, y + depth_ * step + kRowGap, kDeviceWidth, kDeviceHeight};
      boxes_[id] = box;
      draw_device(id, box);
      return;
    }
    const Box box{x, y + level * step + kRowGap, device_width(id), kSwitchHeight};
    boxes_[id] = box;
    double at = x;
    for (const NodeId child : children_[id]) {
      place_device(child, at, y, level + 1);
      uplink(child, boxes_[child].centre(), box.bottom());
      at += device_width(child) + kGap;
    }
    canvas_->box(box, kSwitchPaint, 5, "PCIe switch " + node.address);
    canvas_->text(box.centre(), box.y + 13, 10, kSwitchPaint.text, "PCIe switch", "middle");
    canvas_->text(box.centre(), box.y + 25, 9, kSwitchPaint.line, node.address, "middle");
  }

  void uplink(NodeId id, double x, double y) {
    const Link* const link = up_[id];
    if (link == nullptr) return;
    const Box& box = boxes_.at(id);
    canvas_->wire(x, y, box.centre(), box.y, paint(*link), link->gbps);
    canvas_->tag(box.centre(), box.y - 10, paint(*link), rate(link->gbps, link->assumed));
  }

  void draw_device(NodeId id, const Box& box) {
    const Node& node = graph_.nodes[id];
    const bool gpu = node.kind == NodeKind::Gpu;
    const Paint& paint = gpu ? kGpuPaint : kNicPaint;
    canvas_->box(box, paint, 6, node.model);
    const std::string title = gpu || node.name.empty() ? label(graph_, id) : node.name;
    canvas_->text(box.centre(), box.y + 20, 12, paint.text, title.substr(0, 14), "middle", "bold");
    canvas_->text(box.centre(), box.y + 35, 9, paint.text, node.address.substr(0, 16), "middle");
    std::string more = node.sm > 0 ? fmt::format("sm {}", node.sm) : "";
    if (!gpu) more = node.port > 0 ? fmt::format("port {} GB/s", rate(node.port, node.assumed)) : "no port is up";
    canvas_->text(box.centre(), box.y + 49, 9, paint.text, more, "middle");
  }

  LinkPaint paint(const Link& link) const { return look_ ? look_(link) : paint_of(link.kind); }
  /// Of a NIC's link to the network.
  LinkPaint port(NodeId nic) const {
    for (const Link& link : graph_.links) {
      if (link.kind == LinkKind::Network && (link.a == nic || link.b == nic)) return paint(link);
    }
    return paint_of(LinkKind::Network);
  }

  /// Between neighbours, in the middle of the gap.
  void sockets() {
    for (const Link& link : graph_.links) {
      const auto a = boxes_.find(link.a), b = boxes_.find(link.b);
      if (link.kind != LinkKind::Socket || a == boxes_.end() || b == boxes_.end()) continue;
      const bool right = a->second.x < b->second.x;
      const Box& left = right ? a->second : b->second;
      const Box& other = right ? b->second : a->second;
      if (other.x - left.x - left.width > 3 * kGap) continue;  // all have the same figure
      const double y = left.y + left.height / 2;
      canvas_->path(fmt::format("M{:.1f} {:.1f} H{:.1f}", left.x + left.width, y, other.x), paint(link), link.gbps);
      canvas_->tag((left.x + left.width + other.x) / 2, y - 8, paint(link), rate(link.gbps, link.assumed));
    }
  }

  void ports(double network_y) {
    for (const auto& [id, box] : boxes_) {
      const Node& node = graph_.nodes[id];
      if (node.kind != NodeKind::Nic || node.port <= 0) continue;
      const LinkPaint paint = port(id);
      canvas_->wire(box.centre(), box.bottom(), box.centre(), network_y, paint, node.port);
      canvas_->tag(box.centre(), network_y - 14, paint, rate(node.port, node.assumed));
    }
  }

  void nvlinks(double x, double y) {
    const double top = y + height_ - kPad - kBarHeight;
    Box bar{x + kPad, top, inner_width_, kBarHeight};
    NodeId all = topo::kNoNode;
    for (const Link& link : graph_.links) {
      const auto a = boxes_.find(link.a);
      if (link.kind != LinkKind::NvLink || a == boxes_.end()) continue;
      const Box& from = a->second;
      if (graph_.nodes[link.b].kind == NodeKind::NvSwitch) {
        all = link.b;
        canvas_->wire(from.centre(), from.bottom(), from.centre(), top, paint(link), link.gbps);
        canvas_->tag(from.centre(), (from.bottom() + top) / 2 + 4, paint(link),
                     fmt::format("{}x {}", link.width, figure(link.gbps)));
      } else if (const auto b = boxes_.find(link.b); b != boxes_.end() && graph_.nodes[link.b].kind == NodeKind::Gpu) {
        arc(from, b->second, link);
      } else if (b != boxes_.end()) {
        to_processor(from, b->second, link);
      }
    }
    if (all == topo::kNoNode) return;
    canvas_->box(bar, kNvPaint);
    canvas_->text(bar.centre(), bar.y + 19, 12, kNvPaint.text, label(graph_, all), "middle", "bold");
  }

  /// Beside the PCIe link.
  void to_processor(const Box& gpu, const Box& processor, const Link& link) {
    const double x = gpu.x + gpu.width - 14;
    canvas_->wire(x, processor.bottom(), x, gpu.y, paint(link), link.gbps);
    canvas_->tag(x, gpu.y - 26, paint(link), fmt::format("{}x {}", link.width, figure(link.gbps)));
  }

  void arc(const Box& a, const Box& b, const Link& link) {
    const double deep = std::min(18 + std::abs(a.centre() - b.centre()) / 12, kRowGap + 6);
    canvas_->path(fmt::format("M{0:.1f} {1:.1f} C{0:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {4:.1f}", a.centre(),
                              a.bottom(), a.bottom() + deep * 1.3, b.centre(), b.bottom()),
                  paint(link), link.gbps);
    canvas_->tag((a.centre() + b.centre()) / 2, a.bottom() + deep, paint(link),
                 fmt::format("{}x {}", link.width, figure(link.gbps)));
  }

  const Graph& graph_;
  HostGroup group_;
  LinkLook look_;
  std::vector<std::vector<NodeId>> children_;
  std::vector<const Link*> up_;
  double inner_width_ = 0, height_ = 0, processors_height_ = 0;
  int depth_ = 0;
  Canvas* canvas_ = nullptr;
  std::map<NodeId, Box> boxes_;
};

}  // namespace tutti::tools
