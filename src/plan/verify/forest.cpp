#include "plan/verify/forest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.hpp"

namespace tutti::plan::verifier {
namespace {

uint64_t hash_of(FoldShape shape, bool completes, std::span<const Value> operands) {
  Hash hash;
  hash.add(static_cast<uint64_t>(shape) << 1 | static_cast<uint64_t>(completes));
  for (const Value v : operands) hash.add(v);
  return hash.value();
}

}  // namespace

Forest::Forest(uint32_t ranks, uint32_t blocks)
    : ranks_(ranks), blocks_(std::max(blocks, 1u)), first_fold_(1 + ranks * blocks_), table_(1 << 10, kUndefined) {}

Value Forest::fold(FoldShape shape, bool completes, std::span<const Value> operands) {
  if (operands.size() == 1 && !completes) return operands[0];
  if (operands.size() <= 3) shape = FoldShape::Left;  // both shapes bracket up to three operands alike
  if (folds_.size() * 2 >= table_.size()) grow();
  const size_t mask = table_.size() - 1;
  size_t slot = hash_of(shape, completes, operands) & mask;
  while (table_[slot] != kUndefined) {
    if (same(node(table_[slot]), shape, completes, operands)) return table_[slot];
    slot = (slot + 1) & mask;
  }
  folds_.push_back(describe(shape, completes, operands));
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  return table_[slot] = end() - 1;
}

Forest::Fold Forest::describe(FoldShape shape, bool completes, std::span<const Value> operands) const {
  uint64_t leaves_sum = 0;
  uint32_t completions_sum = completes ? 1 : 0, common = block(operands[0]);
  for (const Value v : operands) {
    leaves_sum += leaves(v);
    completions_sum = std::min(completions_sum + completions(v), 2u);
    if (block(v) != common) common = kNone;
  }
  return {.first = static_cast<uint32_t>(operands_.size()),
          .count = static_cast<uint32_t>(operands.size()),
          .leaves = static_cast<uint32_t>(std::min<uint64_t>(leaves_sum, kNone)),
          .block = common,
          .completions = static_cast<uint16_t>(completions_sum),
          .shape = shape,
          .completes = completes};
}

bool Forest::same(const Fold& fold, FoldShape shape, bool completes, std::span<const Value> values) const {
  const auto own = operands(fold);
  return fold.shape == shape && fold.completes == completes &&
         std::equal(own.begin(), own.end(), values.begin(), values.end());
}

void Forest::grow() {
  std::vector<Value> wider(table_.size() * 2, kUndefined);
  const size_t mask = wider.size() - 1;
  for (Value v = first_fold_; v < end(); ++v) {
    size_t slot = hash_of(node(v).shape, node(v).completes, operands(node(v))) & mask;
    while (wider[slot] != kUndefined) slot = (slot + 1) & mask;
    wider[slot] = v;
  }
  table_ = std::move(wider);
}

std::vector<uint32_t> Forest::contributions(Value v) const {
  std::vector<uint32_t> times(ranks_);
  std::vector<Value> open{v};
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (is_leaf(next)) {
      ++times[leaf_rank(next)];
    } else {
      const auto below = operands(node(next));
      open.insert(open.end(), below.begin(), below.end());
    }
  }
  return times;
}

bool Forest::holds_everything(Value v) const {
  if (leaves(v) != ranks_ || block(v) == kNone) return false;
  const auto times = contributions(v);
  return std::all_of(times.begin(), times.end(), [](uint32_t t) { return t == 1; });
}

std::string Forest::words_of_defect(Value v) const {
  constexpr uint32_t kMaxCounted = 1 << 16;
  if (block(v) == kNone) return "mixes different blocks";
  if (leaves(v) > kMaxCounted) return fmt::format("has {} contributions where {} are wanted", leaves(v), ranks_);
  const auto times = contributions(v);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (times[rank] > 1) return fmt::format("has rank {}'s contribution {} times", rank, times[rank]);
  }
  std::string lacking;
  size_t count = 0;
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (times[rank] == 0 && ++count <= 4) lacking += fmt::format("{}{}", count > 1 ? ", " : "", rank);
  }
  return fmt::format("lacks the contribution of rank{} {}{}", count > 1 ? "s" : "", lacking, count > 4 ? ", …" : "");
}

}  // namespace tutti::plan::verifier
