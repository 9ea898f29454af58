#include "tools/plan/draw.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/format.hpp"
#include "tools/plan/timeline.hpp"

namespace tutti::tools {
namespace {

constexpr double kLeft = 90, kTop = 76, kRight = 40, kBottom = 56;
constexpr const char* kColours[] = {"#1f5fa8", "#c2491d", "#2a8a4a", "#7b3fa0", "#a07a00", "#0f7f86"};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c;
    }
  }
  return safe;
}

class Picture {
 public:
  Picture(std::span<const plan::RankPlan> plans, std::vector<Flight> flights)
      : ranks_(plans.size()), lanes_(plans.front().lanes.size()), flights_(std::move(flights)) {
    size_t longest = 4;
    for (const Flight& f : flights_) {
      rounds_ = std::max(rounds_, f.arrive);
      longest = std::max(longest, std::min<size_t>(f.what.size(), kLongest));
    }
    unit_ = std::clamp(static_cast<double>(longest) * 6.2 + 40, 90.0, 260.0);
    row_ = 56;
  }

  std::string svg(const std::string& title) {
    const double width = kLeft + unit_ * std::max(rounds_, 1) + kRight;
    const double height = kTop + row_ * static_cast<double>(ranks_ - 1) + kBottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#ffffff\"/>\n<defs>\n",
        std::max(width, 420.0), height);
    for (size_t lane = 0; lane < used_colours(); ++lane) {
      out_ += fmt::format(
          "<marker id=\"head{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" "
          "orient=\"auto\"><path d=\"M0 0 L10 5 L0 10 z\" fill=\"{}\"/></marker>\n",
          lane, kColours[lane]);
    }
    out_ += "</defs>\n";
    text(16, 26, 17, "#111111", "start", title, "font-weight=\"bold\"");
    grid();
    for (const Flight& f : flights_) arrow(f);
    labels();
    legend(height - 16);
    return out_ + "</svg>\n";
  }

 private:
  static constexpr size_t kLongest = 28;

  size_t used_colours() const { return std::min(lanes_, std::size(kColours)); }
  static const char* colour(const Flight& f) { return kColours[f.lane % std::size(kColours)]; }
  double x(double time) const { return kLeft + unit_ * time; }
  double y(Rank rank) const { return kTop + row_ * rank; }

  void text(double at_x, double at_y, int size, const char* colour, const char* anchor, const std::string& what,
            const std::string& more = "") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" {}>{}</text>\n",
                    at_x, at_y, size, colour, anchor, more, escaped(what));
  }

  void grid() {
    const double bottom = y(static_cast<Rank>(ranks_ - 1)) + 18;
    for (int t = 0; t <= rounds_; ++t) {
      out_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#e3e3e3\"/>\n", x(t),
                          kTop - 18, bottom);
      if (t < rounds_) text(x(t + 0.5), kTop - 24, 11, "#777777", "middle", fmt::format("round {}", t + 1));
    }
    for (size_t r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<Rank>(r);
      out_ += fmt::format("<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#9a9a9a\"/>\n", kLeft,
                          y(rank), x(rounds_));
      text(kLeft - 12, y(rank) + 4, 13, "#111111", "end", fmt::format("rank {}", r));
    }
  }

  void arrow(const Flight& f) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"1.6\" "
        "marker-end=\"url(#head{})\"><title>{}</title></line>\n",
        x(f.depart), y(f.from), x(f.arrive) - 2, y(f.to), colour(f), f.lane % std::size(kColours),
        escaped(fmt::format("rank {} to rank {}, lane {}: {}", f.from, f.to, f.lane, f.what)));
  }

  /// What a rank sends stands at its line where it leaves, once for all who get the same.
  void labels() {
    std::map<std::pair<Rank, int>, std::vector<const Flight*>> leaving;
    for (const Flight& f : flights_) {
      auto& here = leaving[{f.from, f.depart}];
      const bool known = std::any_of(here.begin(), here.end(),
                                     [&](const Flight* g) { return g->what == f.what && g->lane == f.lane; });
      if (!known) here.push_back(&f);
    }
    for (const auto& [place, here] : leaving) {
      constexpr size_t kMost = 2;
      for (size_t i = 0; i < std::min(here.size(), kMost); ++i) {
        std::string what = here[i]->what.substr(0, kLongest);
        if (what.size() < here[i]->what.size()) what += "...";
        if (i + 1 == kMost && here.size() > kMost) what += fmt::format("  (+{})", here.size() - kMost);
        text(x(place.second) + 6, y(place.first) - 5 - 12 * static_cast<double>(i), 11, colour(*here[i]), "start", what,
             "paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"3\"");
      }
    }
  }

  void legend(double at_y) {
    double at_x = 16;
    for (size_t lane = 0; lane < used_colours() && lanes_ > 1; ++lane) {
      out_ += fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"3\"/>\n",
                          at_x, at_y - 4, at_x + 20, kColours[lane]);
      text(at_x + 26, at_y, 11, "#444444", "start", fmt::format("lane {}", lane));
      at_x += 84;
    }
    text(at_x, at_y, 11, "#444444", "start",
         "one window of the data; \"0+1: out[1/4]\" is the sum of ranks 0 and 1, in chunk 1 of 4 of the output");
  }

  size_t ranks_, lanes_;
  std::vector<Flight> flights_;
  int rounds_ = 0;
  double unit_ = 100, row_ = 50;
  std::string out_;
};

}  // namespace

std::string draw_svg(std::span<const plan::RankPlan> plans, const std::string& title) {
  return Picture(plans, timeline(plans)).svg(title);
}

}  // namespace tutti::tools
