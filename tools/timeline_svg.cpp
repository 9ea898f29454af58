#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

#include "base/format.hpp"
#include "tools/svg.hpp"
#include "tools/timeline.hpp"
#include "tools/wrapped.hpp"

namespace tutti::tools {
namespace {

constexpr double kWidth = 960, kEdge = 16, kLetter = 6.3, kBoldLetter = 7;  // widths, of 12 pixels' height
constexpr double kTitleLine = 22, kLegendLine = 20, kGroupGap = 10, kNoteLine = 19;
constexpr double kRounding = 1e-10;  // seconds that sums of times are off
constexpr size_t kNoteColumns = 148, kTitleColumns = 96;

struct Kind {
  const char *name, *words, *colour;
};
/// In the order of the legend. In both modes white letters can be read on all of them.
constexpr std::array kKinds = {
    Kind{"forward", "forward", "#2563eb"},
    Kind{"recompute", "forward again", "#4f46e5"},
    Kind{"backward", "backward", "#047857"},
    Kind{"backward_input", "backward by the input", "#047857"},
    Kind{"backward_weight", "backward by the weights", "#b45309"},
    Kind{"optimizer", "optimizer", "#7c3aed"},
    Kind{"wait", "waits", "url(#wait)"},
    Kind{"all_reduce", "all-reduce", "#dc2626"},
    Kind{"all_gather", "all-gather", "#0e7490"},
    Kind{"reduce_scatter", "reduce-scatter", "#c026d3"},
    Kind{"all_to_all", "all-to-all", "#4d7c0f"},
    Kind{"broadcast", "broadcast", "#a16207"},
    Kind{"reduce", "reduce", "#9f1239"},
    Kind{"gather", "gather", "#155e75"},
    Kind{"scatter", "scatter", "#86198f"},
    Kind{"barrier", "barrier", "#64748b"},
    Kind{"activation", "activation", "#0369a1"},
    Kind{"gradient", "gradient", "#9d174d"},
    Kind{"send_receive", "send and receive", "#0369a1"},
    Kind{"send", "send", "#0369a1"},
    Kind{"receive", "receive", "#64748b"},
    Kind{"fold", "receive and fold", "#047857"},
    Kind{"copy", "copy", "#b45309"},
    Kind{"other", "other calls", "#475569"},
};

size_t kind_of(const std::string& name) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end() - 1, [&](const Kind& kind) { return kind.name == name; });
  return static_cast<size_t>(found - kKinds.begin());
}

constexpr const char* kStyle = R"(<style>
  .paper { fill: #ffffff } .ink { fill: #0f172a } .soft { fill: #5b6778 } .track { fill: #eef2f7 } .grid { stroke: #d8dfe8 }
  .stripe { stroke: #94a3b8 } .on { fill: #ffffff; font-weight: 600; text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0f172a } .ink { fill: #f1f5f9 } .soft { fill: #a3b1c4 } .track { fill: #1e293b } .grid { stroke: #334155 }
    .stripe { stroke: #7c8ba1 }
  }
</style>
<defs><pattern id='wait' width='5' height='5' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>
<rect class='track' width='5' height='5'/><line class='stripe' x1='0' y1='0' x2='0' y2='5' stroke-width='2'/></pattern></defs>
)";

/// A bar and where it is drawn.
struct Placed {
  const Bar* bar;
  size_t lane = 0, depth = 0;
  bool whole = true;  // it has no parts
  std::string label;  // what is drawn of it
  double label_at = 0;
};

/// What is drawn in one piece.
struct Box {
  const Placed* first;
  double from, to;  // pixels
  size_t lanes, bars;
};

double letters(const std::string& text) {  // code points
  return static_cast<double>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// "block.2" or, where that is too long, "2".
std::string label_within(const std::string& label, double width, double size) {
  const auto fits = [&](const std::string& text) { return letters(text) * kBoldLetter * size / 12 + 3 <= width; };
  if (fits(label)) return label;
  const size_t cut = label.find_last_of(". ");
  const std::string last = cut == std::string::npos ? "" : label.substr(cut + 1);
  return fits(last) ? last : "";
}

/// Which bars are parts of which, or share the height; `lanes`: by how many the height is shared.
std::vector<Placed> place(const TimelineRow& row, size_t& lanes) {
  std::vector<Placed> placed;
  for (const Bar& bar : row.bars) placed.push_back({&bar, 0, 0, true, bar.label});
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.bar->start != b.bar->start ? a.bar->start < b.bar->start : a.bar->end > b.bar->end;
  });
  std::vector<double> free_from;          // [lane]
  std::vector<std::vector<size_t>> open;  // [lane]: bars that the next one may be a part of
  for (size_t i = 0; i < placed.size(); ++i) {
    const Bar& bar = *placed[i].bar;
    for (size_t lane = 0;; ++lane) {
      if (lane == free_from.size()) free_from.push_back(bar.start), open.emplace_back();
      auto& outer = open[lane];
      while (!outer.empty() && placed[outer.back()].bar->end <= bar.start + kRounding) outer.pop_back();
      const bool is_part = !outer.empty() && !row.side_by_side && bar.end <= placed[outer.back()].bar->end + kRounding;
      if (!outer.empty() && !is_part) continue;
      if (is_part && bar.kind != "wait") placed[outer.back()].whole = false;
      placed[i].lane = lane;
      placed[i].depth = outer.size();
      outer.push_back(i);
      break;
    }
  }
  lanes = std::max<size_t>(1, free_from.size());
  return placed;
}

class Drawing {
 public:
  explicit Drawing(const TimelinePicture& picture) : picture_(picture) {
    measure();
    place_columns();
  }

  std::string draw() {
    heading();
    double y = legend() + 12;
    const double first = y;
    for (const TimelineGroup& group : picture_.groups) y = group_of_rows(group, y);
    std::string rows = std::move(body_);
    body_.clear();
    axis(first - 4, y - kGroupGap + 4);
    const std::string grid = std::move(body_);
    body_ = heading_ + grid + rows;
    y = notes(y + 8);
    return fmt::format(
               "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1:.0f}' width='{0}' height='{1:.0f}' "
               "font-family='system-ui, Helvetica, Arial, DejaVu Sans, sans-serif' font-size='12'>\n{2}<rect "
               "class='paper' width='{0}' height='{1:.0f}'/>\n",
               kWidth, y, kStyle) +
           body_ + "</svg>\n";
  }

 private:
  void measure() {
    size_t rows = 0;
    double from = INFINITY, to = -INFINITY;
    for (const TimelineGroup& group : picture_.groups) {
      rows += group.rows.size();
      for (const TimelineRow& row : group.rows) {
        for (const Bar& bar : row.bars) {
          from = std::min(from, bar.start), to = std::max(to, bar.end);
          used_[kind_of(bar.kind)] = true;
        }
      }
    }
    if (from < to) begin_ = from, seconds_ = to - from;
    row_ = rows <= 24 ? 22 : rows <= 72 ? 15 : 11;
    font_ = row_ > 20 ? 12 : row_ > 12 ? 10.5 : 9;
  }

  void place_columns() {
    double names = 0, rows = 0;
    for (const TimelineGroup& group : picture_.groups) {
      names = std::max(names, letters(group.name) * (kLetter + 0.6));
      if (group.rows.size() > 1) names = std::max(names, letters(group.note) * kLetter * 0.9);
      for (const TimelineRow& row : group.rows) rows = std::max(rows, letters(row.name) * kLetter * font_ / 12);
    }
    rows_at_ = kEdge + names + 12;
    left_ = rows_at_ + rows + 14;
  }

  double x(double seconds) const { return left_ + (kWidth - kEdge - left_) * (seconds - begin_) / seconds_; }

  void text(double at, double y, const std::string& attributes, const std::string& words) {
    body_ += fmt::format("<text x='{:.1f}' y='{:.1f}' {}>{}</text>\n", at, y, attributes, escaped(words));
  }

  void heading() {
    for (const std::string& line : lines_of(picture_.title, kTitleColumns)) {
      text(kEdge, top_ += kTitleLine, "class='ink' font-size='16' font-weight='600'", line);
    }
  }

  /// Returns where it ends.
  double legend() {
    double at = kEdge, y = top_ + 26;
    for (size_t i = 0; i < kKinds.size(); ++i) {
      if (!used_[i]) continue;
      const double wide = 24 + kLetter * letters(kKinds[i].words) + 14;
      if (at + wide > kWidth - kEdge) at = kEdge, y += kLegendLine;
      body_ += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='18' height='12' rx='2' fill='{}'/>\n", at, y - 10,
                           kKinds[i].colour);
      text(at + 24, y, "class='soft'", kKinds[i].words);
      at += wide;
    }
    heading_ = std::move(body_);
    body_.clear();
    return y;
  }

  /// Returns where the next group begins.
  double group_of_rows(const TimelineGroup& group, double y) {
    const double middle = row_ / 2 + font_ * 0.36;
    text(kEdge, y + middle, fmt::format("class='ink' font-weight='600' font-size='{}'", font_), group.name);
    if (group.rows.size() > 1 && !group.note.empty()) {
      text(kEdge, y + row_ + middle, fmt::format("class='soft' font-size='{:.1f}'", font_ * 0.9), group.note);
    }
    for (const TimelineRow& row : group.rows) {
      text(rows_at_, y + middle, fmt::format("class='soft' font-size='{}'", font_), row.name);
      body_ += fmt::format("<rect class='track' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}'/>\n", left_, y,
                           kWidth - kEdge - left_, row_ - 2);
      bars(row, y);
      y += row_;
    }
    return y + kGroupGap * (row_ > 12 ? 1 : 0.5);
  }

  void bars(const TimelineRow& row, double y) {
    size_t lanes = 1;
    std::vector<Placed> placed = place(row, lanes);
    choose_labels(placed);
    const double height = (row_ - 2) / static_cast<double>(lanes);
    for (const Box& box : boxes_of(placed)) draw(box, y, height);
    for (const Placed& one : placed) lighten(one, y + height * static_cast<double>(one.lane), height);
    for (const Placed& one : placed) {
      if (one.label.empty() || lanes > 1) continue;
      text(one.label_at, y + row_ / 2 - 1 + font_ * 0.34, fmt::format("class='on' font-size='{:.1f}'", font_ * 0.92),
           one.label);
    }
  }

  void lighten(const Placed& one, double y, double height) {
    const double from = x(one.bar->start), to = x(one.bar->end);
    if (one.bar->shade <= 0 || to - from < 2) return;
    body_ +=
        fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='#ffffff' opacity='{:.2f}'/>\n",
                    from, y, to - from, height, 0.5 * (1 - std::pow(0.45, one.bar->shade)));
  }

  /// What is drawn of bars: those that cannot be seen apart are one box.
  std::vector<Box> boxes_of(std::vector<Placed>& placed) const {
    const auto by = [](const auto&... keys) { return std::tuple(keys...); };
    std::stable_sort(placed.begin(), placed.end(), [&](const Placed& a, const Placed& b) {
      return by(a.depth, a.lane, a.bar->start) < by(b.depth, b.lane, b.bar->start);
    });
    std::vector<Box> narrow;  // side by side in one lane
    for (const Placed& one : placed) {
      const Box box{&one, x(one.bar->start), x(one.bar->end), 1, 1};
      const bool joins = !narrow.empty() && one.lane == narrow.back().first->lane &&
                         one.depth == narrow.back().first->depth && one.bar->kind == narrow.back().first->bar->kind &&
                         box.to - narrow.back().from < 1.2;
      if (joins) {
        narrow.back().to = std::max(narrow.back().to, box.to);
        ++narrow.back().bars;
      } else {
        narrow.push_back(box);
      }
    }
    const auto half_pixels = [](double at) { return std::lround(2 * at); };
    std::stable_sort(narrow.begin(), narrow.end(), [&](const Box& a, const Box& b) {
      return by(a.first->depth, half_pixels(a.from), half_pixels(a.to), a.first->bar->kind, a.first->lane) <
             by(b.first->depth, half_pixels(b.from), half_pixels(b.to), b.first->bar->kind, b.first->lane);
    });
    std::vector<Box> boxes;  // the same in lanes above each other
    for (const Box& box : narrow) {
      const bool joins = !boxes.empty() && box.first->depth == boxes.back().first->depth &&
                         half_pixels(box.from) == half_pixels(boxes.back().from) &&
                         half_pixels(box.to) == half_pixels(boxes.back().to) &&
                         box.first->bar->kind == boxes.back().first->bar->kind &&
                         box.first->lane == boxes.back().first->lane + boxes.back().lanes;
      if (joins) {
        ++boxes.back().lanes;
        boxes.back().bars += box.bars;
      } else {
        boxes.push_back(box);
      }
    }
    return boxes;
  }

  void draw(const Box& box, double y, double lane) {
    const double height = lane * static_cast<double>(box.lanes);
    const double gap = box.to - box.from > 3 && height > 5 ? 0.6 : 0;  // neighbours stay apart
    const std::string more = box.bars > 1 ? fmt::format(" (and {} more)", box.bars - 1) : "";
    body_ += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='{}'{}><title>{}{}</title></rect>\n", box.from,
        y + lane * static_cast<double>(box.first->lane), std::max(0.6, box.to - box.from - gap), height,
        kKinds[kind_of(box.first->bar->kind)].colour, box.first->whole ? "" : " opacity='0.45'",
        escaped(box.first->bar->text), more);
  }

  /// Parts have labels if most of them have room for theirs, and what they are parts of has always the same; else that
  /// has them. A label stands where no wait is drawn on top of it.
  void choose_labels(std::vector<Placed>& placed) const {
    size_t parts = 0, fitting = 0;
    std::set<std::string> of_wholes;
    for (size_t i = 0; i < placed.size(); ++i) {
      Placed& one = placed[i];
      if (one.depth == 0 && !one.whole) of_wholes.insert(one.bar->label);
      const auto [from, to] = widest_part_without_waits(placed, i);
      one.label_at = (from + to) / 2;
      one.label = one.bar->kind == "wait" || row_ < 13 ? "" : label_within(one.bar->label, to - from, font_);
      if (one.depth == 0 || one.bar->kind == "wait") continue;
      ++parts;
      fitting += one.label.empty() ? 0 : 1;
    }
    const bool of_parts = of_wholes.size() == 1 && 2 * fitting >= parts;
    for (Placed& one : placed) {
      const bool is_part = one.depth > 0;
      if (is_part != of_parts && (is_part || !one.whole)) one.label.clear();
    }
  }

  /// In pixels. `placed` is in the order of starts.
  std::pair<double, double> widest_part_without_waits(const std::vector<Placed>& placed, size_t i) const {
    const Bar& bar = *placed[i].bar;
    double from = x(bar.start);
    std::pair<double, double> widest(from, from);
    const auto take = [&](double to) {
      if (to - from > widest.second - widest.first) widest = {from, to};
    };
    for (size_t j = i + 1; j < placed.size() && placed[j].bar->start < bar.end; ++j) {
      if (placed[j].bar->kind != "wait" || placed[j].lane != placed[i].lane) continue;
      take(x(placed[j].bar->start));
      from = std::max(from, x(placed[j].bar->end));
    }
    take(x(bar.end));
    return widest;
  }

  void axis(double top, double bottom) {
    double step = std::pow(10, std::floor(std::log10(seconds_)));
    while (seconds_ / step < 5) step /= seconds_ / step < 2.5 ? 5 : 2;
    const char* const unit = seconds_ >= 2 ? "s" : seconds_ >= 2e-3 ? "ms" : "µs";
    const double scale = seconds_ >= 2 ? 1 : seconds_ >= 2e-3 ? 1e3 : 1e6;
    for (int i = 0; i * step <= seconds_ * 1.0001; ++i) {
      const double at = x(begin_ + i * step);
      body_ +=
          fmt::format("<line class='grid' x1='{0:.1f}' x2='{0:.1f}' y1='{1:.1f}' y2='{2:.1f}'/>\n", at, top, bottom);
      const char* const anchor = at > kWidth - kEdge - 20 ? "end" : "middle";
      text(std::min(at, kWidth - kEdge), bottom + 14,
           fmt::format("class='soft' text-anchor='{}' font-size='11'", anchor),
           fmt::format("{:g} {}", i * step * scale, unit));
    }
  }

  /// Returns the picture's height.
  double notes(double y) {
    y += 8;
    for (const std::string& note : picture_.notes) {
      for (const std::string& line : lines_of(note, kNoteColumns)) text(kEdge, y += kNoteLine, "class='ink'", line);
    }
    return y + 16;
  }

  const TimelinePicture& picture_;
  std::array<bool, kKinds.size()> used_{};
  double begin_ = 0, seconds_ = 1e-9;
  double row_ = 22, font_ = 12, rows_at_ = 0, left_ = 0;
  double top_ = 8;  // the title ends there
  std::string body_, heading_;
};

}  // namespace

std::string time_digits(double value) {
  return value < 1e4 - 0.5 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

std::string to_svg(const TimelinePicture& picture) { return Drawing(picture).draw(); }

}  // namespace tutti::tools
