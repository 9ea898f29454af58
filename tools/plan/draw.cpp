#include "tools/plan/draw.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.hpp"
#include "tools/plan/timeline.hpp"
#include "tools/svg.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

constexpr double kLeft = 90, kTop = 92, kRight = 40, kBottom = 36;  // of the diagram; the legend is below it
constexpr double kMargin = 16, kLegendLine = 16, kLaneKey = 84;
// An upper bound of a character's average width in the legend's and the title's sizes, over fonts.
constexpr double kLegendCharacter = 6.8, kTitleCharacter = 10;
constexpr const char* kColours[] = {"#1f5fa8", "#c2491d", "#2a8a4a", "#7b3fa0", "#a07a00", "#0f7f86"};

constexpr size_t kMaxLabels = 2;      // at one place
constexpr size_t kMaxWordy = 12;      // ranks, if all have labels
constexpr size_t kWordyOfMany = 6;    // number of ranks with labels, among more
constexpr size_t kStrongOfMany = 24;  // arrows in a round

/// What a rank sends: one entry for all receivers of the same message.
using Leaving = std::map<std::pair<Rank, int>, std::vector<const Flight*>>;

Leaving leaving_of(const std::vector<Flight>& flights) {
  Leaving leaving;
  for (const Flight& f : flights) {
    auto& here = leaving[{f.from, f.depart}];
    const bool known =
        std::any_of(here.begin(), here.end(), [&](const Flight* g) { return g->what == f.what && g->lane == f.lane; });
    if (!known) here.push_back(&f);
  }
  return leaving;
}

/// Explains the kinds of labels that occur.
std::string explained(const std::vector<Flight>& flights, size_t every) {
  const auto any = [&](std::string_view mark) {
    return std::any_of(flights.begin(), flights.end(),
                       [&](const Flight& f) { return f.what.find(mark) != std::string::npos; });
  };
  std::string text = "One window of the data.";
  if (any(": ")) text += " \"0+1: out\" is the sum of ranks 0 and 1, in the output; \"0..3\" are ranks 0 to 3.";
  if (any("#")) text += " \"#2\" is block 2 of the buffer, counted from 0.";
  if (any("[")) text += " \"[1/4]\" is chunk 1 of 4 of a block, counted from 0.";
  if (any("nothing")) text += " \"nothing\" is a message without data.";
  const Leaving leaving = leaving_of(flights);
  if (std::any_of(leaving.begin(), leaving.end(), [](const auto& at) { return at.second.size() > kMaxLabels; })) {
    text += " \"(+2)\": two more messages leave there.";
  }
  if (every > 1) {
    text += fmt::format(" Strong, and with words: what one rank in {} sends; --rank shows all of one rank.", every);
  }
  return text;
}

/// The drawing of one rank.
std::vector<Flight> seen_by(Rank rank, std::vector<Flight> flights) {
  if (rank == View::kAllRanks) return flights;
  std::erase_if(flights, [&](const Flight& f) { return f.from != rank && f.to != rank; });
  return flights;
}

class Picture {
 public:
  Picture(std::span<const plan::RankPlan> plans, const View& view)
      : lanes_(plans.front().lanes.size()), flights_(seen_by(view.rank, timeline(plans, view.root))) {
    place_ranks(plans.size(), view.rank);
    size_t longest = 4;
    for (const Flight& f : flights_) {
      rounds_ = std::max(rounds_, f.arrive);
      longest = std::max(longest, std::min<size_t>(f.what.size(), kLongest));
    }
    unit_ = std::clamp(static_cast<double>(longest) * 6.2 + 40, 90.0, 260.0);
    row_ = every_ > 1 ? 30 : 56;
  }

  std::string svg(const std::string& title) {
    const double diagram = kLeft + unit_ * std::max(rounds_, 1) + kRight;
    width_ = std::max({diagram, 2 * kMargin + kTitleCharacter * static_cast<double>(title.size()), 420.0});
    const double legend_at = kTop + row_ * static_cast<double>(rows_.size() - 1) + kBottom;
    const auto lines =
        lines_of(explained(flights_, every_), static_cast<size_t>((width_ - 2 * kMargin) / kLegendCharacter));
    const double height = legend_at + kLegendLine * static_cast<double>(lane_lines() + lines.size()) + kMargin;
    out_ = svg_start(width_, height) + "<defs>\n";
    for (size_t lane = 0; lane < used_colours(); ++lane) {
      out_ += fmt::format(
          "<marker id=\"head{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" "
          "orient=\"auto\"><path d=\"M0 0 L10 5 L0 10 z\" fill=\"{}\"/></marker>\n",
          lane, kColours[lane]);
    }
    out_ += "</defs>\n";
    text(kMargin, 26, 17, "#111111", "start", title, "font-weight=\"bold\"");
    grid();
    for (const bool strong : {false, true}) {
      for (const Flight& f : flights_) {
        if (is_strong(f.from) == strong) arrow(f);
      }
    }
    labels();
    legend(legend_at + kLegendLine, lines);
    return out_ + "</svg>\n";
  }

 private:
  static constexpr size_t kLongest = 28;

  size_t used_colours() const { return std::min(lanes_, std::size(kColours)); }
  static const char* colour(const Flight& f) { return kColours[f.lane % std::size(kColours)]; }
  double x(double time) const { return kLeft + unit_ * time; }
  double y(Rank rank) const { return kTop + row_ * static_cast<double>(rows_.at(rank)); }
  bool is_strong(Rank rank) const { return rows_.at(rank) % every_ == 0; }

  /// The ranks that have a row: all, or those that exchange messages with the one rank.
  void place_ranks(size_t ranks, Rank only) {
    std::set<Rank> shown;
    for (size_t r = 0; r < ranks && only == View::kAllRanks; ++r) shown.insert(static_cast<Rank>(r));
    if (only != View::kAllRanks) shown.insert(only);
    for (const Flight& f : flights_) shown.insert({f.from, f.to});
    for (const Rank rank : shown) rows_.emplace(rank, rows_.size());
    if (only != View::kAllRanks || rows_.size() <= kMaxWordy) return;
    int rounds = 1;
    for (const Flight& f : flights_) rounds = std::max(rounds, f.arrive);
    const size_t arrows = flights_.size() / static_cast<size_t>(rounds);  // in a round
    every_ = std::max(rows_.size() / kWordyOfMany, arrows / kStrongOfMany) + 1;
  }

  void text(double at_x, double at_y, int size, const char* colour, const char* anchor, const std::string& what,
            const std::string& more = "") {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\" {}>{}</text>\n",
                    at_x, at_y, size, colour, anchor, more, escaped(what));
  }

  void grid() {
    const double bottom = kTop + row_ * static_cast<double>(rows_.size() - 1) + 18;
    for (int t = 0; t <= rounds_; ++t) {
      out_ += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#e3e3e3\"/>\n", x(t),
                          kTop - 32, bottom);
      if (t < rounds_) text(x(t + 0.5), kTop - 38, 11, "#777777", "middle", fmt::format("round {}", t + 1));
    }
    for (const auto& [rank, row] : rows_) {
      out_ += fmt::format("<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#9a9a9a\"/>\n", kLeft,
                          y(rank), x(rounds_));
      text(kLeft - 12, y(rank) + 4, 13, "#111111", "end", fmt::format("rank {}", rank));
    }
  }

  void arrow(const Flight& f) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\" "
        "opacity=\"{}\" "
        "marker-end=\"url(#head{})\"><title>{}</title></line>\n",
        x(f.depart), y(f.from), x(f.arrive) - 2, y(f.to), colour(f), is_strong(f.from) ? 1.6 : 0.8,
        is_strong(f.from) ? 1.0 : 0.3, f.lane % std::size(kColours),
        escaped(fmt::format("rank {} to rank {}, lane {}: {}", f.from, f.to, f.lane, f.what)));
  }

  /// A rank's sends are labelled on its line where they leave.
  void labels() {
    for (const auto& [place, here] : leaving_of(flights_)) {
      if (!is_strong(place.first)) continue;
      for (size_t i = 0; i < std::min(here.size(), kMaxLabels); ++i) {
        std::string what = here[i]->what.substr(0, kLongest);
        if (what.size() < here[i]->what.size()) what += "...";
        if (i + 1 == kMaxLabels && here.size() > kMaxLabels) what += fmt::format("  (+{})", here.size() - kMaxLabels);
        text(x(place.second) + 6, y(place.first) - 5 - 12 * static_cast<double>(i), 11, colour(*here[i]), "start", what,
             "paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"3\"");
      }
    }
  }

  size_t lane_keys_in_a_line() const { return static_cast<size_t>((width_ - kMargin) / kLaneKey); }
  size_t lane_lines() const {
    if (lanes_ < 2) return 0;
    return (used_colours() + lane_keys_in_a_line() - 1) / lane_keys_in_a_line();
  }

  void legend(double at_y, const std::vector<std::string>& lines) {
    for (size_t lane = 0; lane < used_colours() && lanes_ > 1; ++lane) {
      const size_t line = lane / lane_keys_in_a_line();
      const double at_x = kMargin + kLaneKey * static_cast<double>(lane % lane_keys_in_a_line());
      const double line_y = at_y + kLegendLine * static_cast<double>(line);
      out_ += fmt::format("<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"3\"/>\n",
                          at_x, line_y - 4, at_x + 20, kColours[lane]);
      text(at_x + 26, line_y, 11, "#444444", "start", fmt::format("lane {}", lane));
    }
    at_y += kLegendLine * static_cast<double>(lane_lines());
    for (const std::string& line : lines) {
      text(kMargin, at_y, 11, "#444444", "start", line);
      at_y += kLegendLine;
    }
  }

  size_t lanes_;
  std::vector<Flight> flights_;
  std::map<Rank, size_t> rows_;  // by rank
  size_t every_ = 1;             // every so many rows one is emphasised
  int rounds_ = 0;
  double unit_ = 100, row_ = 50, width_ = 0;
  std::string out_;
};

}  // namespace

std::string draw_svg(std::span<const plan::RankPlan> plans, const std::string& title, const View& view) {
  return Picture(plans, view).svg(title);
}

}  // namespace tutti::tools
