#include "plan/scratch.hpp"

#include <algorithm>

namespace tutti::plan {
namespace {

bool less(Fraction a, Fraction b) {
  return static_cast<uint64_t>(a.num) * b.den < static_cast<uint64_t>(b.num) * a.den;
}

/// Part of a block of scratch that a lane names.
struct Use {
  uint32_t block = 0, lane = 0;
  Fraction begin, end;
};

class Uses {
 public:
  explicit Uses(const RankPlan& plan) : plan_(plan) {}

  void add(Range pieces, uint32_t lane) {
    for (uint32_t i = pieces.begin; i < pieces.end; ++i) {
      const Piece& piece = plan_.pieces[i];
      if (piece.buffer != Buffer::Scratch) continue;
      all_.push_back({piece.block, lane, boundary(plan_, piece.partition, piece.first),
                      boundary(plan_, piece.partition, piece.last)});
    }
  }
  bool empty() const { return all_.empty(); }

  /// Do uses of different lanes overlap?
  bool meet() {
    std::sort(all_.begin(), all_.end(), [](const Use& a, const Use& b) {
      return a.block != b.block ? a.block < b.block : less(a.begin, b.begin);
    });
    // Of the uses before, that which ends last, and that which ends last of the other lanes.
    const Use *last = nullptr, *other = nullptr;
    for (const Use& use : all_) {
      if (last != nullptr && last->block != use.block) last = other = nullptr;
      for (const Use* before : {last, other}) {
        if (before != nullptr && before->lane != use.lane && less(use.begin, before->end)) return true;
      }
      if (last == nullptr || less(last->end, use.end)) {
        if (last != nullptr && last->lane != use.lane) other = last;
        last = &use;
      } else if (use.lane != last->lane && (other == nullptr || less(other->end, use.end))) {
        other = &use;
      }
    }
    return false;
  }

 private:
  const RankPlan& plan_;
  std::vector<Use> all_;
};

}  // namespace

bool shares_scratch(const RankPlan& plan) {
  if (plan.scratch_blocks == 0) return false;
  Uses uses(plan);
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (uint32_t s = plan.lanes[lane].steps.begin; s < plan.lanes[lane].steps.end; ++s) {
      const Step& step = plan.steps[s];
      if (step.lend != Lend::Never) {
        Uses lent(plan);
        lent.add(step.pieces, lane);
        if (!lent.empty()) return true;
      }
      uses.add(step.pieces, lane);
      for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) uses.add(plan.operands[i].pieces, lane);
    }
  }
  return uses.meet();
}

}  // namespace tutti::plan
