#include "plan/verify.hpp"

#include "plan/verify/alike.hpp"
#include "plan/verify/checks.hpp"
#include "plan/verify/structure.hpp"
#include "plan/verify/values.hpp"

namespace tutti::plan {
namespace verifier {

void check_contents(const Model& model, const VerifyOptions& options) {
  check_lengths(model);
  Forest forest(model.ranks(), blocks(model.shape(), Buffer::Input, 0));
  std::vector<Values> modes;
  modes.emplace_back(model, forest, false);
  if (model.has_alias()) modes.emplace_back(model, forest, true);
  // One round decides about deadlock (see replay.hpp) and values: each round is the same on another window.
  Replay(model, options.capacity, 1, 1).run([&](const Moment& moment) {
    for (Values& mode : modes) mode.run(moment);
  });
  for (const Values& mode : modes) mode.check_outputs();
}

uint32_t ranks_to_check(const Model& model, const VerifyOptions& options) {
  // The check that no rank leaves a barrier before another has entered needs every pair of ranks.
  if (options.every_rank || model.shape().collective == Collective::Barrier) return model.ranks();
  return all_ranks_are_alike(model) ? 1 : model.ranks();
}

}  // namespace verifier

Verdict verify(std::span<const RankPlan> plans, const VerifyOptions& options) {
  using namespace verifier;
  return verdict_of([&] {
    check_structure(plans);
    const Model model(plans);
    check_contents(model, options);
    Races races(model, ranks_to_check(model, options), options.versions, Races::Lends::Claimed);
    check_order(model, options, races, [](const Moment&) {});
    if (options.check_reproducible && !is_canonical(plans)) {
      reject("the outputs are not folded in the canonical order");
    }
  });
}

}  // namespace tutti::plan
