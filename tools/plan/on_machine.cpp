#include "tools/plan/on_machine.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "plan/traffic.hpp"
#include "synth/bound.hpp"
#include "tools/plan/trees.hpp"
#include "tools/topo/overlay.hpp"

namespace tutti::tools {
namespace {

using Ends = std::pair<topo::NodeId, topo::NodeId>;

constexpr const char *kInk = "#1d2733", *kTree = "#11318f", *kCut = "#7a1fa0", *kFaint = "#6b7684";
constexpr size_t kSmallTrees = 24;  // that are drawn below the machine
constexpr double kLevel = 34, kApart = 24, kRadius = 9.5;

struct Grade {
  double from;  // of the time
  const char* colour;
  const char* name;
};
constexpr Grade kGrades[] = {{0, "#b9c4d1", "below 25 %"},
                             {0.25, "#5d9fd0", "from 25 %"},
                             {0.5, "#3f9b52", "from 50 %"},
                             {0.75, "#e0a526", "from 75 %"},
                             {0.95, "#cf2f26", "from 95 %"}};

const char* colour_of(double share) {
  const char* colour = kGrades[0].colour;
  for (const Grade& grade : kGrades) {
    if (share >= grade.from - 1e-9) colour = grade.colour;
  }
  return colour;
}

/// How busy links are while the busiest one is busy all the time.
class Loads {
 public:
  Loads(std::span<const plan::RankPlan> plans, const synth::Network& network, Rank root) : network_(network) {
    std::map<std::pair<synth::Vertex, synth::Vertex>, double> amounts;
    for (const plan::Flow& flow : plan::flows_of(plans)) {
      const auto at = [&](Rank rank) { return (rank + root) % network.ranks; };
      const std::vector<synth::Vertex> way = network.way(at(flow.from), at(flow.to));
      for (size_t i = 1; i < way.size(); ++i) amounts[{way[i - 1], way[i]}] += flow.amount;
    }
    for (const synth::Arc& arc : network.arcs) {
      const double load = amounts[{arc.from, arc.to}] / static_cast<double>(arc.capacity);
      shares_[{node(arc.from), node(arc.to)}] = load;
      most_ = std::max(most_, load);
    }
  }

  /// Of the busier direction; less than 0: no message uses it.
  double share(topo::NodeId a, topo::NodeId b) const {
    double most = -1;
    for (const Ends& ends : {Ends{a, b}, Ends{b, a}}) {
      if (const auto at = shares_.find(ends); at != shares_.end()) most = std::max(most, at->second);
    }
    return most_ > 0 ? most / most_ : most;
  }

 private:
  topo::NodeId node(synth::Vertex vertex) const { return network_.nodes[vertex]; }
  const synth::Network& network_;
  std::map<Ends, double> shares_;
  double most_ = 0;
};

/// Links that leave a side of the cut, either way round.
std::set<Ends> crossing(const synth::Network& network, const synth::Bound& bound) {
  std::set<Ends> ends;
  for (const synth::Side& side : bound.cut.sides) {
    for (const synth::Arc& arc : network.arcs) {
      if (side[arc.from] != side[arc.to]) ends.insert(std::minmax(network.nodes[arc.from], network.nodes[arc.to]));
    }
  }
  return ends;
}

/// A tree of its own: the root above, each rank above those that it passes the block on to.
class SmallTree {
 public:
  explicit SmallTree(const PlanTree& tree) : tree_(tree), children_(tree.children()), at_(tree.parents.size()) {
    place(tree.root, 0);
  }
  double width() const { return std::max(leaves_ * kApart, 7.0 * static_cast<double>(tree_.carries.size()) + 10); }
  double height() const { return deepest_ * kLevel + 2 * kRadius + 30; }

  void draw(Canvas& canvas, double x, double y, bool chosen) const {
    canvas.text(x, y + 12, 11, chosen ? kTree : kInk, tree_.carries + (tree_.up ? ", up" : ""), "start",
                chosen ? "bold" : "normal");
    const auto centre = [&](Rank rank) {
      const auto& [across, down] = at_[static_cast<size_t>(rank)];
      return std::pair(x + across * kApart + kRadius + 1, y + 20 + kRadius + down * kLevel);
    };
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      if (tree_.parents[rank] == kNoRank) continue;
      const auto [x1, y1] = centre(tree_.parents[rank]);
      const auto [x2, y2] = centre(static_cast<Rank>(rank));
      canvas.add(fmt::format("<path d=\"M{:.1f} {:.1f} L{:.1f} {:.1f}\" stroke=\"{}\" stroke-width=\"1.3\"/>", x1, y1,
                             x2, y2, chosen ? kTree : "#8793a3"));
    }
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      const auto [cx, cy] = centre(static_cast<Rank>(rank));
      canvas.add(fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"{}\"/>", cx, cy,
                             kRadius, static_cast<Rank>(rank) == tree_.root ? "#dfe6fb" : "#ffffff",
                             chosen ? kTree : "#8793a3"));
      canvas.text(cx, cy + 3.5, rank > 99 ? 8 : 10, kInk, fmt::format("{}", rank), "middle");
    }
  }

 private:
  /// Leaves stand side by side, others above the middle of their children.
  double place(Rank rank, int level) {
    deepest_ = std::max(deepest_, static_cast<double>(level));
    double sum = 0;
    const auto& below = children_[static_cast<size_t>(rank)];
    for (const Rank child : below) sum += place(child, level + 1);
    const double across = below.empty() ? leaves_++ : sum / static_cast<double>(below.size());
    at_[static_cast<size_t>(rank)] = {across, static_cast<double>(level)};
    return across;
  }

  const PlanTree& tree_;
  std::vector<std::vector<Rank>> children_;
  std::vector<std::pair<double, double>> at_;  // by rank: across, down
  double leaves_ = 0, deepest_ = 0;
};

class MachinePicture {
 public:
  MachinePicture(std::span<const plan::RankPlan> plans, const OnMachine& machine)
      : plans_(plans),
        machine_(machine),
        network_(synth::network_of(*machine.graph, machine.nodes)),
        loads_(plans, network_, machine.root),
        most_(synth::network_at_most(*machine.graph, machine.nodes)),
        bound_(synth::bound_of(most_, plans.front().shape.collective, machine.root)),
        cut_(crossing(most_, bound_)),
        trees_(trees_of(plans, machine.root)) {
    if (machine.tree == 0 || machine.tree < trees_.size()) return;
    throw_error(Code::InvalidArgument, "--tree {}: the plan has {}, from 0 on", machine.tree,
                counted(trees_.size(), "tree"));
  }

  std::string draw(const std::string& title) const {
    return draw_topology(
        *machine_.graph, title,
        {.look = [this](const topo::Link& link) { return look(link); },
         .over = [this](Canvas& canvas, const auto& boxes) { over(canvas, boxes); },
         .below = [this](Canvas& canvas, double x, double y, double width) { return below(canvas, x, y, width); }});
  }

 private:
  LinkPaint look(const topo::Link& link) const {
    const double share = loads_.share(link.a, link.b);
    if (share < 0) return {.colour = "#e3e7ec", .note = {}};
    return {.colour = colour_of(share),
            .note = fmt::format("{:.0f} %", 100 * share),
            .marked = cut_.contains(std::minmax(link.a, link.b))};
  }

  /// Ranks' numbers, and the chosen tree: an arc for each message, from below the sender to below the receiver.
  void over(Canvas& canvas, const std::map<topo::NodeId, Box>& boxes) const {
    const auto box = [&](Rank rank) -> const Box* {
      const auto at = boxes.find(machine_.nodes[static_cast<size_t>(rank)]);
      return at == boxes.end() ? nullptr : &at->second;
    };
    if (!trees_.empty()) {
      const PlanTree& tree = trees_[machine_.tree];
      const auto children = tree.children();
      for (Rank rank = 0; rank < network_.ranks; ++rank) {
        for (const Rank child : children[static_cast<size_t>(rank)]) {
          const Box *from = box(tree.up ? child : rank), *to = box(tree.up ? rank : child);
          if (from != nullptr && to != nullptr) arc(canvas, *from, *to);
        }
      }
    }
    for (Rank rank = 0; rank < network_.ranks; ++rank) {
      const Box* const at = box(rank);
      if (at == nullptr) continue;
      const bool root = !trees_.empty() && trees_[machine_.tree].root == rank;
      const double r = at->width > 40 ? 10 : 6;
      canvas.add(fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"{}\"/>", at->x + 2,
                             at->y + 2, r, root ? kTree : "#ffffff", kTree));
      canvas.text(at->x + 2, at->y + 2 + r * 0.36, static_cast<int>(r), root ? "#ffffff" : kInk,
                  fmt::format("{}", rank), "middle", "bold");
    }
  }

  static void arc(Canvas& canvas, const Box& from, const Box& to) {
    // Messages leave on the side of their receiver, and come in the middle.
    const double side = to.x > from.x ? 1 : -1;
    const double x1 = from.centre() + side * std::min(18.0, from.width / 4), x2 = to.centre() - side * to.width / 8;
    const double deep = std::min(12 + std::abs(x2 - x1) / 22, 40.0);
    const double y1 = from.bottom(), y2 = to.bottom();
    const std::string way = fmt::format("M{0:.1f} {1:.1f} C{0:.1f} {2:.1f} {3:.1f} {4:.1f} {3:.1f} {5:.1f}", x1, y1,
                                        y1 + deep * 1.33, x2, y2 + deep * 1.33, y2 + 6);
    for (const auto& [colour, thick] : {std::pair("#ffffff", 4.2), {kTree, 1.8}}) {
      canvas.add(
          fmt::format("<path class=\"tree\" d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
                      "stroke-opacity=\"0.9\"/>",
                      way, colour, thick));
    }
    canvas.add(fmt::format("<path d=\"M{:.1f} {:.1f} l-4 7 h8 z\" fill=\"{}\"/>", x2, y2, kTree));
  }

  double below(Canvas& canvas, double left, double top, double width) const {
    double x = left, y = top + 58;  // an arc may reach below the last host
    canvas.text(x, y, 12, kInk, "Busy, of the busiest link's time:", "start", "bold");
    x += 196;
    for (const Grade& grade : kGrades) {
      canvas.path(fmt::format("M{:.1f} {:.1f} h22", x, y - 4), {.colour = grade.colour, .note = {}}, 48);
      canvas.text(x + 28, y, 11, kInk, grade.name);
      x += 40 + 6.2 * static_cast<double>(std::string(grade.name).size());
    }
    y += 24;
    canvas.path(fmt::format("M{:.1f} {:.1f} h22", left, y - 4), {.colour = "#ffffff", .note = {}, .marked = true}, 8);
    canvas.text(left + 30, y, 12, kCut, "The cut that binds: " + synth::words_of(most_, bound_), "start", "bold");
    y += 20;
    canvas.text(
        left, y, 11, kFaint,
        "Figures: GB/s in each direction, and how busy the busier direction is. Pale: no message uses the link. "
        "Circles: ranks.");
    if (trees_.empty()) return y + 24;
    y += 26;
    canvas.text(
        left, y, 12, kInk,
        fmt::format("{}; over the machine: that of {}", counted(trees_.size(), "tree"), trees_[machine_.tree].carries),
        "start", "bold");
    return small_trees(canvas, left, y + 10, width);
  }

  double small_trees(Canvas& canvas, double left, double y, double width) const {
    double x = left, row = 0;
    const size_t shown = std::min(trees_.size(), kSmallTrees);
    for (size_t i = 0; i < shown; ++i) {
      const SmallTree tree(trees_[i]);
      if (x > left && x + tree.width() > left + width) {
        x = left;
        y += row;
        row = 0;
      }
      tree.draw(canvas, x, y, i == machine_.tree);
      x += tree.width() + 28;
      row = std::max(row, tree.height());
    }
    y += row;
    if (shown < trees_.size()) {
      canvas.text(left, y + 14, 11, kFaint, fmt::format("… and {} more", trees_.size() - shown));
      y += 18;
    }
    return y + 16;
  }

  std::span<const plan::RankPlan> plans_;
  const OnMachine& machine_;
  synth::Network network_;  // with the rates of the cost model
  Loads loads_;
  synth::Network most_;  // with the most that links carry, of which the bound is
  synth::Bound bound_;
  std::set<Ends> cut_;
  std::vector<PlanTree> trees_;
};

}  // namespace

std::string draw_on_machine(std::span<const plan::RankPlan> plans, const std::string& title, const OnMachine& machine) {
  return MachinePicture(plans, machine).draw(title);
}

}  // namespace tutti::tools
