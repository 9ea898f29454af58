#include "tools/train/curve.hpp"

#include <algorithm>
#include <cmath>

#include "tools/svg.hpp"

namespace tutti::tools {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 20, kTop = 40, kBottom = 50;
constexpr int kMaxTicks = 10;  // of each axis

}  // namespace

std::string learning_curve(const std::vector<double>& bits, int64_t first, const std::string& title) {
  double most = 1;
  for (const double value : bits) most = std::isfinite(value) ? std::max(most, value) : most;
  most = std::ceil(most);
  const size_t steps = bits.size();
  const auto x = [&](size_t i) {
    return kLeft +
           (kWidth - kLeft - kRight) * (steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0.5);
  };
  const auto y = [&](double value) {
    return kTop + (kHeight - kTop - kBottom) * (1 - std::min(std::isfinite(value) ? value : most, most) / most);
  };
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' font-family='sans-serif' font-size='12'>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n<text x='{2}' y='24' font-size='15'>{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  const double rise = std::ceil(most / kMaxTicks);
  for (int i = 0; i <= kMaxTicks && i * rise <= most; ++i) {
    svg += fmt::format(
        "<line x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}' stroke='#ddd'/><text x='{3}' y='{4:.1f}' "
        "text-anchor='end'>{5:g}</text>\n",
        kLeft, kWidth - kRight, y(i * rise), kLeft - 8, y(i * rise) + 4, i * rise);
  }
  const size_t stride = std::max<size_t>(1, (steps + kMaxTicks - 1) / kMaxTicks);
  for (size_t i = 0; i < steps; i += stride) {
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x(i), kHeight - kBottom + 18,
                       first + static_cast<int64_t>(i));
  }
  svg += fmt::format(
      "<text x='{}' y='{}' text-anchor='middle'>step (loss in bits a byte)</text>\n<polyline fill='none' "
      "stroke='#1864ab' stroke-width='2' points='",
      kWidth / 2, kHeight - 10);
  for (size_t i = 0; i < steps; ++i) svg += fmt::format("{:.1f},{:.1f} ", x(i), y(bits[i]));
  svg += "'/>\n";
  if (steps > 0) {
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:.3f}</text>\n", x(steps - 1),
                       y(bits.back()) - 8, bits.back());
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::tools
