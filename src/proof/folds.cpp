#include "proof/folds.hpp"

#include <algorithm>

#include "plan/verify.hpp"
#include "plan/verify/values.hpp"

namespace tutti::proof {
namespace {

using plan::verifier::Value;

/// The values of a block of `count` elements: in each round, an atom's value is that of all its elements.
std::vector<Value> spread(const plan::verifier::Model& model, std::span<const Value> atoms,
                          const exec::Geometry& geometry, uint32_t grain) {
  const uint64_t window = std::max<uint64_t>(1, std::min(geometry.window, geometry.count));
  std::vector<Value> all;
  for (uint64_t begin = 0; begin < geometry.count; begin += window) {
    const uint64_t length = std::min(window, geometry.count - begin);
    for (uint32_t atom = 0; atom < model.atoms(); ++atom) {
      all.resize(begin + plan::cut(model.bound(atom + 1), length, geometry.element_bytes, grain), atoms[atom]);
    }
  }
  return all;
}

}  // namespace

ExpectedFolds folds_of(std::span<const plan::RankPlan> plans, const CallCase& how, plan::verifier::Forest& forest) {
  const plan::verifier::Model model(plans);
  plan::verifier::Values values(model, forest, how.geometry.in_place && model.has_alias());
  plan::verifier::Replay(model, plan::VerifyOptions{}.capacity, 1, 1).run([&](const auto& moment) {
    values.run(moment);
  });
  ExpectedFolds folds(plans.size());
  for (uint32_t rank = 0; rank < plans.size(); ++rank) {
    const uint32_t blocks = plan::blocks(plans[rank].shape, plan::Buffer::Output, plans[rank].rank);
    for (uint32_t block = 0; block < blocks; ++block) {
      folds[rank].push_back(spread(model, values.output(rank, block), how.geometry, plans[rank].grain));
    }
  }
  return folds;
}

}  // namespace tutti::proof
