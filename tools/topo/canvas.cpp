#include "tools/topo/canvas.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "tools/svg.hpp"
#include "tools/topo/view.hpp"

namespace tutti::tools {
namespace {

using topo::LinkKind;

constexpr const char* colour_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::Pci:
      return "#7c6bb0";
    case LinkKind::NvLink:
      return "#4c9a3a";
    case LinkKind::Network:
      return "#cf8f47";
    default:
      return "#5b7fb5";
  }
}

constexpr const char* kCut = "#7a1fa0";

/// Wider links are drawn thicker.
double thickness(double gbps) { return std::clamp(0.8 + std::log2(1 + gbps / 8), 1.0, 7.0); }

}  // namespace

void Canvas::box(const Box& at, const Paint& paint, double radius, const std::string& title) {
  out_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\" fill=\"{}\" stroke=\"{}\">", at.x,
      at.y, at.width, at.height, radius, paint.fill, paint.line);
  out_ += title.empty() ? "</rect>\n" : fmt::format("<title>{}</title></rect>\n", escaped(title));
}

void Canvas::text(double x, double y, int size, const char* colour, const std::string& what, const char* anchor,
                  const char* weight) {
  out_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" font-weight=\"{}\">{}</text>\n",
      x, y, size, colour, anchor, weight, escaped(what));
}

void Canvas::wire(double x1, double y1, double x2, double y2, const LinkPaint& paint, double gbps) {
  const double middle = (y1 + y2) / 2;
  const std::string way = std::abs(x1 - x2) < 0.5
                              ? fmt::format("M{:.1f} {:.1f} V{:.1f}", x1, y1, y2)
                              : fmt::format("M{0:.1f} {1:.1f} V{2:.1f} H{3:.1f} V{4:.1f}", x1, y1, middle, x2, y2);
  path(way, paint, gbps);
}

void Canvas::path(const std::string& way, const LinkPaint& paint, double gbps) {
  if (paint.marked) {
    add(fmt::format(
        "<path class=\"cut\" d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-dasharray=\"7 4\"/>",
        way, kCut, thickness(gbps) + 7));
  }
  out_ += fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-linejoin=\"round\" "
      "stroke-linecap=\"round\"/>\n",
      way, paint.colour, thickness(gbps));
}

void Canvas::tag(double x, double y, const LinkPaint& paint, const std::string& figure) {
  const std::string what = paint.note.empty() ? figure : figure + " · " + paint.note;
  const double width = 6.0 * static_cast<double>(what.size()) + 8;
  out_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"15\" rx=\"7\" fill=\"#ffffff\" "
      "fill-opacity=\"0.92\"/>\n",
      x - width / 2, y - 11, width);
  text(x, y, 10, paint.note.empty() ? paint.colour.c_str() : "#1d2733", what, "middle");
}

std::string Canvas::take(double width, double height) const { return svg_start(width, height) + out_ + "</svg>\n"; }

LinkPaint paint_of(LinkKind kind) { return {.colour = colour_of(kind), .note = {}}; }

std::string rate(double gbps, bool assumed) { return figure(gbps) + (assumed ? "?" : ""); }

}  // namespace tutti::tools
