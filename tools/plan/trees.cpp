#include "tools/plan/trees.hpp"

#include <map>
#include <numeric>
#include <tuple>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

using plan::Fraction;
using plan::Piece;
using plan::RankPlan;
using plan::StepKind;

/// What a message carries: part of a block, of which each rank may have another copy; or sums of such.
struct Content {
  uint32_t block = 0;
  Fraction from, to;
  bool sum = false;  ///< not all contributions are in
  static double value(Fraction f) { return static_cast<double>(f.num) / f.den; }
  auto key() const { return std::tuple(!sum, block, value(from), value(to)); }
  bool operator<(const Content& other) const { return key() < other.key(); }
};

std::string in_words(const Content& content, bool several) {
  std::string text = several ? fmt::format("block {}", content.block) : "";
  const Fraction from = content.from, to = content.to;
  if (from.num == 0 && to.num == to.den) return several ? text : "all";
  const uint64_t common = std::lcm(uint64_t{from.den}, uint64_t{to.den});
  const uint64_t first = from.num * (common / from.den), last = to.num * (common / to.den);
  if (several) text += ", ";
  return text + (last == first + 1 ? fmt::format("part {} of {}", first + 1, common)
                                   : fmt::format("parts {} to {} of {}", first + 1, last, common));
}

/// The messages of one rank, by content.
class Reader {
 public:
  Reader(const RankPlan& plan, std::map<Content, std::vector<std::pair<Rank, Rank>>>& edges)
      : plan_(plan), edges_(edges) {}

  void read() {
    for (const plan::Lane& lane : plan_.lanes) {
      std::map<std::pair<uint32_t, uint32_t>, Content> sums;  // in scratch: by block and first chunk
      for (uint32_t s = lane.steps.begin; s < lane.steps.end; ++s) {
        const plan::Step& step = plan_.steps[s];
        if (step.kind == StepKind::Reduce) keep_sum(step, sums);
        if (step.kind == StepKind::Send) send(step, sums);
      }
    }
  }

 private:
  using Sums = std::map<std::pair<uint32_t, uint32_t>, Content>;

  Content content_of(const Piece& piece, bool sum) const {
    const auto at = [&](uint32_t index) {
      const Fraction f = boundary(plan_, piece.partition, index);
      const uint32_t common = std::gcd(f.num, f.den);
      return Fraction{f.num / common, f.den / common};
    };
    return {piece.block, at(piece.first), at(piece.last), sum};
  }

  /// A sum in scratch is of what is folded from the rank's own input.
  void keep_sum(const plan::Step& step, Sums& sums) const {
    const Piece& to = plan_.pieces[step.pieces.begin];
    for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
      const plan::Operand& operand = plan_.operands[i];
      if (operand.peer != kNoRank) continue;
      const Piece& from = plan_.pieces[operand.pieces.begin];
      if (from.buffer != plan::Buffer::Scratch) sums[{to.block, to.first}] = content_of(from, true);
    }
  }

  void send(const plan::Step& step, const Sums& sums) {
    for (uint32_t p = step.pieces.begin; p < step.pieces.end; ++p) {
      const Piece& piece = plan_.pieces[p];
      Content content = content_of(piece, reduces(plan_.shape.collective) && piece.buffer == plan::Buffer::Input);
      if (piece.buffer == plan::Buffer::Scratch) {
        const auto sum = sums.find({piece.block, piece.first});
        if (sum == sums.end()) continue;
        content = sum->second;
      } else if (piece.buffer == plan::Buffer::Input && plan_.shape.collective == Collective::AllGather) {
        content.block = static_cast<uint32_t>(plan_.rank);
      }
      for (uint32_t i = step.peers.begin; i < step.peers.end; ++i) {
        edges_[content].emplace_back(plan_.rank, plan_.peers[i]);
      }
    }
  }

  const RankPlan& plan_;
  std::map<Content, std::vector<std::pair<Rank, Rank>>>& edges_;
};

/// Takes messages as the edges of a tree. False: they are none.
bool take_edges(const std::vector<std::pair<Rank, Rank>>& edges, PlanTree& tree) {
  const auto ranks = static_cast<Rank>(tree.parents.size());
  if (edges.size() + 1 != tree.parents.size()) return false;
  for (const auto& [from, to] : edges) {
    Rank& parent = tree.parents[static_cast<size_t>(tree.up ? from : to)];
    if (parent != kNoRank) return false;
    parent = tree.up ? to : from;
  }
  for (Rank rank = 0; rank < ranks; ++rank) {  // each has a way to the root
    Rank at = rank;
    for (Rank steps = 0; tree.parents[static_cast<size_t>(at)] != kNoRank; ++steps) {
      if (steps == ranks) return false;
      at = tree.parents[static_cast<size_t>(at)];
    }
    tree.root = at;
  }
  return true;
}

}  // namespace

std::vector<std::vector<Rank>> PlanTree::children() const {
  std::vector<std::vector<Rank>> children(parents.size());
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    if (parents[rank] != kNoRank) children[static_cast<size_t>(parents[rank])].push_back(static_cast<Rank>(rank));
  }
  return children;
}

std::vector<PlanTree> trees_of(std::span<const plan::RankPlan> plans, Rank root) {
  std::map<Content, std::vector<std::pair<Rank, Rank>>> edges;
  for (const RankPlan& plan : plans) Reader(plan, edges).read();
  const auto ranks = static_cast<Rank>(plans.size());
  const Collective collective = plans.front().shape.collective;
  const bool several = collective == Collective::AllGather || collective == Collective::ReduceScatter;
  std::vector<PlanTree> trees;
  for (auto& [content, messages] : edges) {
    for (auto& [from, to] : messages) from = (from + root) % ranks, to = (to + root) % ranks;
    PlanTree tree{.carries = in_words(content, several), .up = content.sum};
    tree.parents.assign(plans.size(), kNoRank);
    if (take_edges(messages, tree)) trees.push_back(std::move(tree));
  }
  return trees;
}

}  // namespace tutti::tools
