// Shapes and colours of the drawing of `tutti topo --svg`.
#pragma once

#include <string>

#include "topo/graph.hpp"

namespace tutti::tools {

struct Paint {
  const char* fill;
  const char* line;
  const char* text;
};
inline constexpr Paint kHostPaint{"#f7f8fa", "#c9ced6", "#1d2733"}, kPackagePaint{"#e9eff8", "#9db4d6", "#1d3a63"},
    kNumaPaint{"#f8fbff", "#b9cbe6", "#1d3a63"}, kComplexPaint{"#dfe9f7", "#a9bfe0", "#1d3a63"},
    kCorePaint{"#4f7fc4", "#3b67a6", "#ffffff"}, kIdleCorePaint{"#ffffff", "#a9bfe0", "#6b7f9c"},
    kSwitchPaint{"#eeeaf6", "#a99bcb", "#43316f"}, kGpuPaint{"#e3f2df", "#7fb46f", "#1f4d16"},
    kNicPaint{"#fdeedd", "#dfa361", "#6b3d07"}, kNvPaint{"#d3ead0", "#5d9c4d", "#1f4d16"},
    kNetworkPaint{"#fbe3c8", "#cf8f47", "#6b3d07"};

/// How a link is drawn.
struct LinkPaint {
  std::string colour;
  std::string note;     ///< after its figure
  bool marked = false;  ///< with a broken line around it
};
/// By its kind alone.
LinkPaint paint_of(topo::LinkKind kind);

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double centre() const { return x + width / 2; }
  double bottom() const { return y + height; }
};

class Canvas {
 public:
  /// `title`: shown when the pointer is over it.
  void box(const Box& at, const Paint& paint, double radius = 6, const std::string& title = "");
  void text(double x, double y, int size, const char* colour, const std::string& what, const char* anchor = "start",
            const char* weight = "normal");
  /// A link, down, across and down. Wider links are drawn thicker.
  void wire(double x1, double y1, double x2, double y2, const LinkPaint& paint, double gbps);
  void path(const std::string& way, const LinkPaint& paint, double gbps);
  /// A link's figure, on a white ground.
  void tag(double x, double y, const LinkPaint& paint, const std::string& what);
  /// Anything else: an element of SVG.
  void add(const std::string& element) { out_ += element + "\n"; }
  /// The whole file.
  std::string take(double width, double height) const;

 private:
  std::string out_;
};

/// "371", "12?": GB/s.
std::string rate(double gbps, bool assumed);

}  // namespace tutti::tools
