#include "plan/verify/alike.hpp"

#include <algorithm>

namespace tutti::plan::verifier {
namespace {

/// Rank 0 and one other, in one mode: in place or out of place.
class Comparison {
 public:
  Comparison(const Model& model, uint32_t rank, bool in_place)
      : model_(model), first_(model.plans()[0]), other_(model.plans()[rank]), rank_(rank), in_place_(in_place) {
    const auto count = [&](uint32_t r) { return model.locations_of_first(r + 1) - model.locations_of_first(r); };
    image_.assign(count(0), kNone);
    origin_.assign(count(rank), kNone);
  }

  bool holds() {
    const bool same_lanes = std::equal(
        first_.lanes.begin(), first_.lanes.end(), other_.lanes.begin(), other_.lanes.end(),
        [](const Lane& a, const Lane& b) { return a.steps.begin == b.steps.begin && a.steps.end == b.steps.end; });
    if (!same_lanes || model_.is_fenced(0) != model_.is_fenced(rank_)) return false;
    for (size_t i = 0; i < first_.steps.size(); ++i) {
      if (!same_step(first_.steps[i], other_.steps[i])) return false;
    }
    return true;
  }

 private:
  bool same_step(const Step& a, const Step& b) {
    if (a.kind != b.kind || a.lend != b.lend || a.after != b.after) return false;
    if (a.peers.size() != b.peers.size() || a.operands.size() != b.operands.size()) return false;
    for (uint32_t i = 0; i < a.peers.size(); ++i) {
      if (!same_peer(first_.peers[a.peers.begin + i], other_.peers[b.peers.begin + i])) return false;
    }
    for (uint32_t i = 0; i < a.operands.size(); ++i) {
      const Operand &x = first_.operands[a.operands.begin + i], &y = other_.operands[b.operands.begin + i];
      if (!same_peer(x.peer, y.peer) || !same_memory(x.pieces, y.pieces)) return false;
    }
    return same_memory(a.pieces, b.pieces) &&
           model_.copies_to_itself(0, a, in_place_) == model_.copies_to_itself(rank_, b, in_place_);
  }

  bool same_peer(Rank a, Rank b) const {
    if (a == kNoRank || b == kNoRank) return a == b;
    const uint32_t turned = static_cast<uint32_t>(a) + rank_;
    return static_cast<uint32_t>(b) == (turned < model_.ranks() ? turned : turned - model_.ranks());
  }

  /// Atom by atom, because the same memory may be one piece on one rank and two on the other.
  bool same_memory(Range a, Range b) {
    Run x, y;
    const Piece *from = nullptr, *to = nullptr;
    while (true) {
      for (; x.count == 0 && a.begin < a.end; ++a.begin) {
        from = &first_.pieces[a.begin];
        x = model_.run_of(0, *from, in_place_);
      }
      for (; y.count == 0 && b.begin < b.end; ++b.begin) {
        to = &other_.pieces[b.begin];
        y = model_.run_of(rank_, *to, in_place_);
      }
      if (x.count == 0 || y.count == 0) return x.count == y.count;
      const uint32_t both = std::min(x.count, y.count);
      if (!correspond(*from, x.location, *to, y.location - model_.locations_of_first(rank_), both)) return false;
      x = {x.location + both, x.atom + both, x.count - both};
      y = {y.location + both, y.atom + both, y.count - both};
    }
  }

  /// Maps `count` locations of rank 0's memory, from `x`, to those of the other rank from `y`.
  bool correspond(const Piece& from, uint32_t x, const Piece& to, uint32_t y, uint32_t count) {
    const bool read_only = model_.read_only(0, from, in_place_);
    if (read_only != model_.read_only(rank_, to, in_place_)) return false;
    if (read_only) return true;  // memory that is never written cannot race
    if ((from.buffer == Buffer::Scratch) != (to.buffer == Buffer::Scratch)) return false;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t &image = image_[x + i], &origin = origin_[y + i];
      if (image == kNone && origin == kNone) image = y + i, origin = x + i;
      if (image != y + i) return false;  // then origin is x + i too: both are set together, once
    }
    return true;
  }

  const Model& model_;
  const RankPlan &first_, &other_;
  uint32_t rank_;
  bool in_place_;
  std::vector<uint32_t> image_, origin_;  // location of rank 0 → location of the other rank, and back
};

}  // namespace

bool all_ranks_are_alike(const Model& model) {
  for (uint32_t rank = 1; rank < model.ranks(); ++rank) {
    if (!Comparison(model, rank, false).holds()) return false;
    if (model.has_alias() && !Comparison(model, rank, true).holds()) return false;
  }
  return true;
}

}  // namespace tutti::plan::verifier
