#include "plan/algorithm.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "base/format.hpp"
#include "base/hash.hpp"
#include "plan/verify.hpp"

namespace tutti::plan {
namespace {

std::vector<Algorithm>& catalogue() {
  static std::vector<Algorithm> all;
  return all;
}

/// Also verifies the plans.
Cost counted_of(std::span<const RankPlan> plans, const std::string& name) {
  try {
    return count(plans).cost;
  } catch (const Error& error) {
    const bool is_too_large = error.code() == Code::Unsupported;  // nothing wrong was found
    throw_error(error.code(), "the plans {} {}: {}", name, is_too_large ? "cannot be proven" : "are wrong",
                error.what());
  }
}

/// Plans from outside the catalogue, as an algorithm.
struct Adopted {
  Adopted(std::string called, std::vector<RankPlan> given) : name(std::move(called)), plans(std::move(given)) {
    const auto ranks = static_cast<Rank>(plans.size());
    const Cost counted = counted_of(plans, name);
    const Collective collective = plans.front().shape.collective;
    algorithm = {.collective = collective,
                 .name = name.c_str(),
                 .summary = summary.c_str(),
                 .allows = [ranks](Rank n) { return n == ranks; },
                 .generate = [this](const Shape&, Rank me,
                                    PlanBuilder& plan) { plan.take_over(plans[static_cast<size_t>(me)]); },
                 .cost = [counted](Rank) { return counted; },
                 .canonical = reduces(collective) && collective != Collective::Reduce && is_canonical(plans)};
  }
  const std::string name;
  const std::vector<RankPlan> plans;
  const std::string summary = fmt::format("plans for {} ranks that were made elsewhere", plans.size());
  Algorithm algorithm;
};

class Adoptions {
 public:
  static Adoptions& get() {
    static auto* all = new Adoptions;  // never destroyed: threads may outlive main
    return *all;
  }
  const Algorithm* find(Collective collective, std::string_view name) const {
    const std::lock_guard lock(mutex_);
    for (const Adopted& a : all_) {
      if (a.algorithm.collective == collective && a.name == name) return &a.algorithm;
    }
    return nullptr;
  }
  const Algorithm& add(const std::string& name, std::vector<RankPlan> plans) {
    const std::lock_guard lock(mutex_);  // held during the proof too: a caller with the same plans waits for it
    for (const Adopted& a : all_) {
      if (a.name == name && a.plans == plans) return a.algorithm;
    }
    return all_.emplace_back(name, std::move(plans)).algorithm;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Adopted> all_;  // a deque: addresses are stable
};

}  // namespace

bool needs_groups(const Algorithm& algorithm, Rank ranks) {
  if (algorithm.allows({algorithm.collective, ranks})) return false;
  std::vector<Rank> halves;
  for (Rank rank = 0; rank < ranks; ++rank) halves.push_back(2 * rank / ranks);
  return algorithm.allows({algorithm.collective, ranks, std::make_shared<const Grouping>(halves)});
}

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
  return Adoptions::get().find(collective, name);
}

const Algorithm& adopt(std::string_view name, std::vector<RankPlan> plans) {
  for (RankPlan& plan : plans) plan.shape.groups = nullptr;
  const std::string full = fmt::format("{}@{:016x}", name, hash_of(plans));
  return Adoptions::get().add(full, std::move(plans));
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
