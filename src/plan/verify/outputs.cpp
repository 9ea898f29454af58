#include "plan/verify/outputs.hpp"

#include <fmt/format.h>

#include "plan/verify/structure.hpp"

namespace tutti::plan::verifier {
namespace {

std::string fault_of_fold(const Forest& forest, const Shape& shape, uint32_t rank, Value value) {
  const uint32_t wanted = shape.collective == Collective::ReduceScatter ? rank : 0;
  if (forest.block(value) != wanted && forest.block(value) != kNone) {
    return fmt::format("holds a fold of the inputs' block {} where block {} is wanted", forest.block(value), wanted);
  }
  // A completing fold was checked to hold everything when it ran, so a tree of n leaves that has one is that fold.
  const auto ranks = static_cast<uint32_t>(shape.ranks);
  if (forest.leaves(value) == ranks && (ranks == 1 || forest.completions(value) == 1)) return "";
  if (!forest.holds_everything(value)) return forest.words_of_defect(value);
  return "holds every contribution, but no step claims to complete it";
}

/// Where nothing is folded.
Value wanted_of(const Forest& forest, const Shape& shape, uint32_t rank, uint32_t block) {
  switch (shape.collective) {
    case Collective::AllGather:
    case Collective::Gather:
      return forest.leaf(block, 0);
    case Collective::AllToAll:
      return forest.leaf(block, rank);
    case Collective::Scatter:
      return forest.leaf(0, rank);
    default:  // broadcast
      return forest.leaf(0, 0);
  }
}

}  // namespace

std::string fault_of_output(const Forest& forest, const Shape& shape, uint32_t rank, uint32_t block, Value value) {
  if (value == kUndefined) return "is never written";
  if (reduces(shape.collective)) return fault_of_fold(forest, shape, rank, value);
  const Value wanted = wanted_of(forest, shape, rank, block);
  if (value == wanted) return "";
  if (!forest.is_leaf(value)) return "holds a fold where none is wanted";
  return fmt::format("holds block {} of rank {}'s input where block {} of rank {}'s is wanted",
                     forest.leaf_block(value), forest.leaf_rank(value), forest.leaf_block(wanted),
                     forest.leaf_rank(wanted));
}

}  // namespace tutti::plan::verifier
