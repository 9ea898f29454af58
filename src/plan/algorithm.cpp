#include "plan/algorithm.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace tutti::plan {
namespace {

std::vector<Algorithm>& catalogue() {
  static std::vector<Algorithm> all;
  return all;
}

}  // namespace

Registration::Registration(const Algorithm& algorithm) { catalogue().push_back(algorithm); }

std::vector<const Algorithm*> algorithms_of(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : catalogue()) {
    if (a.collective == collective) found.push_back(&a);
  }
  std::sort(found.begin(), found.end(),
            [](const Algorithm* a, const Algorithm* b) { return std::string_view(a->name) < b->name; });
  return found;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& a : catalogue()) {
    if (a.collective == collective && a.name == name) return &a;
  }
  return nullptr;
}

RankPlan generate(const Algorithm& algorithm, const Shape& shape, Rank me) {
  if (shape.groups != nullptr && shape.groups->ranks() != shape.ranks) {
    throw_error(Code::InvalidArgument, "{}:{} for {} ranks was given groups of {}", name_of(algorithm.collective),
                algorithm.name, shape.ranks, shape.groups->ranks());
  }
  if (!algorithm.allows(shape)) {
    throw_error(Code::Unsupported, "{}:{} does not work for {} ranks{} ({})", name_of(algorithm.collective),
                algorithm.name, shape.ranks, grouped(shape) ? " in groups" : "", algorithm.summary);
  }
  PlanBuilder builder(shape, me);
  algorithm.generate(shape, me, builder);
  return builder.finish();
}

std::vector<RankPlan> generate_all(const Algorithm& algorithm, const Shape& shape) {
  std::vector<RankPlan> plans;
  plans.reserve(static_cast<size_t>(shape.ranks));
  for (Rank me = 0; me < shape.ranks; ++me) plans.push_back(generate(algorithm, shape, me));
  return plans;
}

}  // namespace tutti::plan
