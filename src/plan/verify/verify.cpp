#include "plan/verify.hpp"

#include <algorithm>
#include <new>

#include "plan/verify/races.hpp"
#include "plan/verify/reject.hpp"
#include "plan/verify/structure.hpp"
#include "plan/verify/values.hpp"

namespace tutti::plan {
namespace verifier {
namespace {

/// One round decides about deadlock (see replay.hpp) and values: each round is the same on another window.
void check_values(const Model& model, uint32_t capacity) {
  Forest forest(model.ranks(), blocks(model.shape(), Buffer::Input, 0));
  std::vector<Values> modes;
  modes.emplace_back(model, forest, false);
  if (model.has_alias()) modes.emplace_back(model, forest, true);
  Replay(model, capacity, 1, 1).run([&](const Moment& moment) {
    for (Values& mode : modes) mode.run(moment);
  });
  for (const Values& mode : modes) mode.check_outputs();
}

void check_races(const Model& model, const VerifyOptions& options) {
  const uint32_t versions = std::max(options.versions, 1u), rounds = Races::rounds_needed(model, versions);
  Races races(model, versions, rounds, Races::Lends::Claimed);
  Replay(model, options.capacity, versions, rounds).run([&](const Moment& moment) { races.run(moment); });
  if (model.shape().collective == Collective::Barrier) races.check_barrier();
}

}  // namespace
}  // namespace verifier

Verdict verify(std::span<const RankPlan> plans, const VerifyOptions& options) {
  try {
    verifier::check_structure(plans);
    const verifier::Model model(plans);
    verifier::check_lengths(model);
    verifier::check_values(model, options.capacity);
    verifier::check_races(model, options);
    if (options.check_reproducible && !is_canonical(plans)) {
      verifier::reject("the outputs are not folded in the canonical order");
    }
    return {};
  } catch (const verifier::Rejected& rejected) {
    return {false, rejected.what()};
  } catch (const std::bad_alloc&) {
    return {false, "the plans are too large to prove: memory ran out"};
  }
}

}  // namespace tutti::plan
