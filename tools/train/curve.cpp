#include "tools/train/curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::tools {
namespace {

constexpr double kWidth = 720, kHeight = 400, kLeft = 60, kRight = 20, kTop = 40, kBottom = 50;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

}  // namespace

std::string learning_curve(const std::vector<double>& bits, const std::string& title) {
  const double most = std::max(1.0, std::ceil(*std::max_element(bits.begin(), bits.end())));
  const auto steps = static_cast<double>(bits.size());
  const auto x = [&](double step) {
    return kLeft + (kWidth - kLeft - kRight) * (steps > 1 ? (step - 1) / (steps - 1) : 0.5);
  };
  const auto y = [&](double value) { return kTop + (kHeight - kTop - kBottom) * (1 - value / most); };
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' font-family='sans-serif' font-size='12'>\n"
      "<rect width='{0}' height='{1}' fill='white'/>\n<text x='{2}' y='24' font-size='15'>{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  for (double value = 0; value <= most; ++value) {
    svg += fmt::format(
        "<line x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}' stroke='#ddd'/><text x='{3}' y='{4:.1f}' "
        "text-anchor='end'>{5}</text>\n",
        kLeft, kWidth - kRight, y(value), kLeft - 8, y(value) + 4, value);
  }
  const double stride = std::max(1.0, std::ceil(steps / 10));
  for (double step = 1; step <= steps; step += stride) {
    svg +=
        fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n", x(step), kHeight - kBottom + 18, step);
  }
  svg += fmt::format(
      "<text x='{}' y='{}' text-anchor='middle'>step (loss in bits a byte)</text>\n<polyline fill='none' "
      "stroke='#1864ab' stroke-width='2' points='",
      kWidth / 2, kHeight - 10);
  for (size_t i = 0; i < bits.size(); ++i)
    svg += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(i + 1)), y(bits[i]));
  return svg + fmt::format("'/>\n<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:.3f}</text>\n</svg>\n", x(steps),
                           y(bits.back()) - 8, bits.back());
}

}  // namespace tutti::tools
