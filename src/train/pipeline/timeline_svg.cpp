#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tutti/train/timeline.hpp"

namespace tutti::train {
namespace {

using What = Action::What;

constexpr double kWidth = 1200, kLeft = 150, kRight = 24, kTop = 84;
constexpr double kBox = 30, kBar = 4, kRow = kBox + 2 * kBar + 16;  // computations, two lanes of messages, a gap

struct Colour {
  int red, green, blue;
};

struct Look {
  const char* name;
  Colour colour;
};

Look look_of(What what) {
  constexpr std::array<Look, 4> kLooks = {{{"F  forward", {37, 99, 235}},
                                           {"B  backward", {5, 150, 105}},
                                           {"B  by the input", {5, 150, 105}},
                                           {"W  by the weights", {217, 119, 6}}}};
  return kLooks.at(static_cast<size_t>(what));
}

/// Later chunks are lighter.
Colour shade(Colour colour, int chunk) {
  const double white = 1 - std::pow(0.68, chunk);
  const auto mix = [white](int c) { return static_cast<int>(c + (255 - c) * white); };
  return {mix(colour.red), mix(colour.green), mix(colour.blue)};
}

std::string hex(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

/// Black or white, whichever can be read on it.
const char* ink_on(Colour c) { return 299 * c.red + 587 * c.green + 114 * c.blue > 150000 ? "#0f172a" : "#ffffff"; }

constexpr const char* kStyle = R"(<style>
  .paper { fill: #ffffff } .ink { fill: #0f172a } .soft { fill: #64748b } .idle { fill: #f1f5f9 } .grid { stroke: #e2e8f0 }
  .activation { fill: #93c5fd } .gradient { fill: #6ee7b7 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0f172a } .ink { fill: #f1f5f9 } .soft { fill: #94a3b8 } .idle { fill: #1e293b } .grid { stroke: #334155 }
    .activation { fill: #60a5fa } .gradient { fill: #34d399 }
  }
</style>
)";

class Picture {
 public:
  explicit Picture(const Timeline& timeline)
      : timeline_(timeline),
        seconds_(std::max(timeline.seconds(), 1e-9)),
        bottom_(kTop + kRow * static_cast<double>(timeline.ranks.size())) {}

  std::string draw() {
    const double height = bottom_ + 84;
    svg_ = fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
        "font-family='system-ui, DejaVu Sans, sans-serif' font-size='12'>\n{2}<rect class='paper' width='{0}' "
        "height='{1}'/>\n",
        kWidth, height, kStyle);
    heading();
    axis();
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) row(rank);
    caption();
    return svg_ + "</svg>\n";
  }

 private:
  double x(double seconds) const { return kLeft + (kWidth - kLeft - kRight) * seconds / seconds_; }
  double width(double start, double end) const { return std::max(0.8, x(end) - x(start)); }
  void text(double at, double y, const char* attributes, const std::string& words) {
    svg_ += fmt::format("<text x='{:.1f}' y='{:.1f}' {}>{}</text>\n", at, y, attributes, words);
  }

  void heading() {
    const PipelineShape& shape = timeline_.shape;
    std::string words = fmt::format("Pipeline schedule {}: {} stages, {} micro-batches", name_of(timeline_.schedule),
                                    shape.stages(), shape.micro_batches);
    if (shape.chunks > 1) words += fmt::format(", {} chunks a rank", shape.chunks);
    text(24, 34, "class='ink' font-size='18' font-weight='600'", words);
    double at = 24;
    const auto legend = [&](const std::string& fill, const std::string& name, double height) {
      svg_ += fmt::format("<rect x='{:.1f}' y='{:.1f}' width='16' height='{}' rx='2' {}/>\n", at, 56 - height / 2,
                          height, fill);
      text(at + 22, 60, "class='soft'", name);
      at += 46 + 6.6 * static_cast<double>(name.size());
    };
    for (const What what : {What::Forward, What::Backward, What::BackwardInput, What::BackwardWeight}) {
      const Look look = look_of(what);
      if (timeline_.mean(what) > 0) legend(fmt::format("fill='{}'", hex(look.colour)), look.name, 12);
    }
    legend("class='activation'", "sends an activation", kBar);
    legend("class='gradient'", "sends a gradient", kBar);
    legend("class='idle'", "idle", 12);
    if (shape.chunks > 1) text(at, 60, "class='soft'", "lighter: later chunks");
  }

  void axis() {
    double step = std::pow(10, std::floor(std::log10(seconds_)));
    while (seconds_ / step < 6) step /= seconds_ / step < 3 ? 5 : 2;
    for (int i = 0; i * step <= seconds_ * 1.0001; ++i) {
      const double at = x(i * step);
      svg_ +=
          fmt::format("<line class='grid' x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}'/>\n", at, kTop - 6, bottom_ - 6);
      text(at, bottom_ + 10, "class='soft' text-anchor='middle' font-size='11'",
           fmt::format("{:g} ms", i * step * 1e3));
    }
  }

  void row(size_t rank) {
    const RankTimeline& line = timeline_.ranks[rank];
    const double top = kTop + kRow * static_cast<double>(rank), lanes = top + kBox + 2;
    text(24, top + 14, "class='ink' font-weight='600'", fmt::format("rank {}", rank));
    text(24, top + 28, "class='soft' font-size='11'", line.label);
    svg_ += fmt::format("<rect class='idle' x='{}' y='{}' width='{}' height='{}' rx='3'/>\n", kLeft, top,
                        kWidth - kLeft - kRight, kBox);
    for (const Slot& slot : line.slots) box(slot, top);
    for (const Transfer& t : line.transfers) {
      if (!t.sent || t.end > seconds_ * 1.001) continue;
      svg_ += fmt::format(
          "<rect class='{}' x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{}'><title>sends {} of micro-batch {}, "
          "{:.3f} ms</title></rect>\n",
          t.forward ? "activation" : "gradient", x(t.start), lanes + (t.forward ? 0 : kBar + 1), width(t.start, t.end),
          kBar, t.forward ? "the activation" : "the gradient", t.micro_batch, (t.end - t.start) * 1e3);
    }
  }

  void box(const Slot& slot, double top) {
    const Colour colour = shade(look_of(slot.action.what).colour, slot.action.chunk);
    const double wide = width(slot.start, slot.end);
    svg_ += fmt::format(
        "<rect x='{:.1f}' y='{}' width='{:.1f}' height='{}' rx='2' fill='{}' stroke='{}' stroke-width='0.8'>"
        "<title>{} of micro-batch {}, chunk {}: {:.3f} ms at {:.3f} ms</title></rect>\n",
        x(slot.start), top, wide, kBox, hex(colour),
        hex({colour.red * 3 / 4, colour.green * 3 / 4, colour.blue * 3 / 4}), name_of(slot.action.what),
        slot.action.micro_batch, slot.action.chunk, (slot.end - slot.start) * 1e3, slot.start * 1e3);
    if (wide < 9) return;
    text(x(slot.start) + wide / 2, top + kBox / 2 + 4,
         fmt::format("text-anchor='middle' font-size='{}' font-weight='600' fill='{}'", wide < 16 ? 9 : 12,
                     ink_on(colour))
             .c_str(),
         fmt::format("{}", slot.action.micro_batch));
  }

  void caption() {
    const PipelineShape& shape = timeline_.shape;
    text(24, bottom_ + 42, "class='ink' font-size='14'",
         fmt::format("Bubble: {:.1f} % of the ranks’ time measured; by the formula {} with p = {}, m = {}{}: {:.1f} %",
                     100 * timeline_.bubble(), bubble_text(timeline_.schedule), shape.ranks, shape.micro_batches,
                     shape.chunks > 1 ? fmt::format(", v = {}", shape.chunks) : "", 100 * timeline_.formula()));
    std::string held;
    for (size_t rank = 0; rank < timeline_.ranks.size(); ++rank) {
      held += fmt::format("{}{}", rank == 0 ? "" : ", ", timeline_.in_flight(rank));
    }
    text(24, bottom_ + 64, "class='soft'",
         fmt::format(
             "{:.2f} ms from the first computation to the last. Numbers are micro-batches. Most {} in flight, by "
             "rank: {}.",
             seconds_ * 1e3, shape.chunks > 1 ? "chunks’ activations" : "activations", held));
  }

  const Timeline& timeline_;
  double seconds_, bottom_;
  std::string svg_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline) { return Picture(timeline).draw(); }

}  // namespace tutti::train
