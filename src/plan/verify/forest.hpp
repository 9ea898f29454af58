// Values as trees: the additions that made the content of a location.
//
// Equal trees are one node, so comparing values is comparing numbers. A value never moves within the window (see
// model.hpp), so a tree does not name its position: leaf (rank, block) is that position in that block of the rank's
// input.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan::verifier {

using Value = uint32_t;
inline constexpr Value kUndefined = 0;

class Forest {
 public:
  /// Inputs have up to `blocks` blocks on each rank.
  Forest(uint32_t ranks, uint32_t blocks);

  Value leaf(uint32_t rank, uint32_t block) const { return 1 + rank * blocks_ + block; }
  bool is_leaf(Value v) const { return v < first_fold_; }
  uint32_t leaf_rank(Value v) const { return (v - 1) / blocks_; }
  uint32_t leaf_block(Value v) const { return (v - 1) % blocks_; }

  /// The value of one step's fold: the result is rounded to the type once, for any number of operands.
  Value fold(FoldShape shape, bool completes, std::span<const Value> operands);

  /// The number of inputs in the tree, counted as often as they were added (at most 2^32 − 1).
  uint32_t leaves(Value v) const { return is_leaf(v) ? 1 : node(v).leaves; }
  /// The number of folds in the tree that claim to complete it.
  uint32_t completions(Value v) const { return is_leaf(v) ? 0 : node(v).completions; }
  /// The block of all inputs in the tree; kNone if they differ.
  uint32_t block(Value v) const { return is_leaf(v) ? leaf_block(v) : node(v).block; }
  /// True if the tree holds every rank's input exactly once, all of one block.
  bool holds_everything(Value v) const;
  /// "lacks rank 3's contribution", "has rank 2's contribution 2 times", …
  std::string words_of_defect(Value v) const;

  /// How often each rank's input is in the tree.
  std::vector<uint32_t> contributions(Value v) const;

  struct Fold {
    uint32_t first;  // of its operands
    uint32_t count;
    uint32_t leaves;
    uint32_t block;
    uint16_t completions;  // capped at 2, which is an error already
    FoldShape shape;
    bool completes;
  };
  const Fold& node(Value v) const { return folds_[v - first_fold_]; }
  std::span<const Value> operands(const Fold& fold) const { return {operands_.data() + fold.first, fold.count}; }
  Value first_fold() const { return first_fold_; }
  Value end() const { return first_fold_ + static_cast<Value>(folds_.size()); }

 private:
  Fold describe(FoldShape shape, bool completes, std::span<const Value> operands) const;
  bool same(const Fold& fold, FoldShape shape, bool completes, std::span<const Value> operands) const;
  void grow();

  uint32_t ranks_, blocks_;
  Value first_fold_;
  std::vector<Fold> folds_;
  std::vector<Value> operands_;
  std::vector<Value> table_;  // open addressing; kUndefined: free
};

}  // namespace tutti::plan::verifier
