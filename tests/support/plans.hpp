// Plans for tests: those of the catalogue, and small hand-made ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/algorithm.hpp"

namespace tutti::test {

/// Every algorithm of every collective.
inline std::vector<const plan::Algorithm*> catalogue() {
  std::vector<const plan::Algorithm*> all;
  for (int c = 0; c < kCollectives; ++c) {
    const auto found = plan::algorithms_of(static_cast<Collective>(c));
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

/// "all_reduce_ring", for the name of a test.
inline std::string name_of(const plan::Algorithm& algorithm) {
  return std::string(tutti::name_of(algorithm.collective)) + "_" + algorithm.name;
}

/// The plans of `ranks` ranks, each written by write(rank, builder).
inline std::vector<plan::RankPlan> written(Collective collective, Rank ranks,
                                           const std::function<void(Rank, plan::PlanBuilder&)>& write) {
  std::vector<plan::RankPlan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    plan::PlanBuilder builder({collective, ranks}, rank);
    write(rank, builder);
    plans.push_back(builder.finish());
  }
  return plans;
}

}  // namespace tutti::test
