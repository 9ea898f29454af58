// Fold trees of outputs, compared.
#include <algorithm>
#include <map>

#include "base/format.hpp"
#include "plan/verify.hpp"
#include "plan/verify/values.hpp"

namespace tutti::plan {
namespace verifier {
namespace {

/// Trees of single additions: what remains of a forest when every addition rounds, independent of the steps.
class Brackets {
 public:
  /// The tree of each value of the forest, by value.
  std::vector<uint32_t> of(const Forest& forest) {
    std::vector<uint32_t> tree(forest.end());
    for (Value v = 1; v < forest.first_fold(); ++v) tree[v] = v;
    next_ = std::max(next_, forest.first_fold());
    std::vector<uint32_t> operands;
    for (Value v = forest.first_fold(); v < forest.end(); ++v) {
      const Forest::Fold& fold = forest.node(v);
      operands.clear();
      for (const Value o : forest.operands(fold)) operands.push_back(tree[o]);
      tree[v] = fold.shape == FoldShape::Left ? left(operands) : canonical(operands);
    }
    return tree;
  }

  uint32_t left(std::span<const uint32_t> operands) {
    uint32_t sum = operands[0];
    for (const uint32_t o : operands.subspan(1)) sum = add(sum, o);
    return sum;
  }

  uint32_t canonical(std::span<const uint32_t> operands) {
    size_t power = 1;
    while (power * 2 <= operands.size()) power *= 2;
    const size_t pairs = operands.size() - power;
    std::vector<uint32_t> level;
    for (size_t i = 0; i < pairs; ++i) level.push_back(add(operands[2 * i], operands[2 * i + 1]));
    level.insert(level.end(), operands.begin() + static_cast<std::ptrdiff_t>(2 * pairs), operands.end());
    for (; level.size() > 1; level.resize(level.size() / 2)) {
      for (size_t i = 0; i < level.size() / 2; ++i) level[i] = add(level[2 * i], level[2 * i + 1]);
    }
    return level[0];
  }

 private:
  uint32_t add(uint32_t a, uint32_t b) {
    const auto [found, is_new] = sums_.emplace(std::pair(a, b), next_);
    if (is_new) ++next_;
    return found->second;
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sums_;
  uint32_t next_ = 1;
};

/// Runs one round, out of place, in the given forest. Runs in one forest are comparable: equal values are equal trees.
Values run(const Model& model, Forest& forest) {
  Values values(model, forest, false);
  Replay(model, kNone, 1, 1).run([&](const Moment& moment) { values.run(moment); });
  return values;
}

Forest forest_for(const Model& model) { return {model.ranks(), blocks(model.shape(), Buffer::Input, 0)}; }

/// Calls visit(rank, block) for every output block.
template <class Visit>
void each_output(const Model& model, const Visit& visit) {
  for (uint32_t rank = 0; rank < model.ranks(); ++rank) {
    const uint32_t count = blocks(model.shape(), Buffer::Output, static_cast<Rank>(rank));
    for (uint32_t block = 0; block < count; ++block) visit(rank, block);
  }
}

/// Calls visit(a's atom, b's atom) for every two atoms that overlap in the window.
template <class Visit>
void each_common_part(const Model& a, const Model& b, const Visit& visit) {
  const auto less = [](Fraction x, Fraction y) { return uint64_t{x.num} * y.den < uint64_t{y.num} * x.den; };
  for (uint32_t i = 0, j = 0; i < a.atoms() && j < b.atoms();) {
    visit(i, j);
    const Fraction end_a = a.bound(i + 1), end_b = b.bound(j + 1);
    if (!less(end_b, end_a)) ++i;
    if (!less(end_a, end_b)) ++j;
  }
}

}  // namespace
}  // namespace verifier

bool same_bits(std::span<const RankPlan> a, std::span<const RankPlan> b, bool round_every_node) {
  using namespace verifier;
  const Model model_a(a), model_b(b);
  if (model_a.ranks() != model_b.ranks() || model_a.shape().collective != model_b.shape().collective) return false;
  Forest forest = forest_for(model_a);
  const Values values_a = run(model_a, forest), values_b = run(model_b, forest);
  Brackets brackets;
  const std::vector<uint32_t> tree = round_every_node ? brackets.of(forest) : std::vector<uint32_t>();
  bool same = true;
  each_output(model_a, [&](uint32_t rank, uint32_t block) {
    const auto out_a = values_a.output(rank, block), out_b = values_b.output(rank, block);
    each_common_part(model_a, model_b, [&](uint32_t i, uint32_t j) {
      const Value x = out_a[i], y = out_b[j];
      same = same && (x == y || (round_every_node && tree[x] == tree[y]));
    });
  });
  return same;
}

bool is_canonical(std::span<const RankPlan> plans) {
  using namespace verifier;
  const Model model(plans);
  if (!reduces(model.shape().collective)) return true;
  Forest forest = forest_for(model);
  const Values values = run(model, forest);
  Brackets brackets;
  const std::vector<uint32_t> tree = brackets.of(forest);
  bool canonical = true;
  each_output(model, [&](uint32_t rank, uint32_t block) {
    const uint32_t wanted_block = model.shape().collective == Collective::ReduceScatter ? rank : 0;
    std::vector<uint32_t> leaves;
    for (Rank original = 0; original < model.shape().ranks; ++original) {
      leaves.push_back(forest.leaf(static_cast<uint32_t>(model.shape().relabelled(original)), wanted_block));
    }
    const uint32_t wanted = brackets.canonical(leaves);
    for (const Value value : values.output(rank, block)) canonical = canonical && tree[value] == wanted;
  });
  return canonical;
}

}  // namespace tutti::plan
