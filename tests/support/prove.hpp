// Checks for tests of algorithms: the plans are proven, send what the algorithm claims, and need every step; and the
// steps as text, for comparison with hand-made ones.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "plan/algorithm.hpp"
#include "plan/verify.hpp"
#include "plan/words.hpp"
#include "support/shapes.hpp"

namespace tutti::plan {

/// Every number from 1 to 64, and some larger ones between and around powers of two. Fewer under sanitizers, which
/// check the code and not the proof.
inline std::vector<Rank> ranks_to_prove() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 21};
#else
  std::vector<Rank> ranks;
  for (Rank n = 1; n <= 64; ++n) ranks.push_back(n);
  ranks.insert(ranks.end(), {100, 127, 128, 129});
  return ranks;
#endif
}

/// The number of ranks of a very large plan.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr Rank kManyRanks = 32;
#else
inline constexpr Rank kManyRanks = 1000;
#endif

/// A registered algorithm of a collective.
struct Candidate {
  Collective collective;
  const char* name;
  const Algorithm& algorithm() const {
    const Algorithm* found = find_algorithm(collective, name);
    if (found == nullptr) throw_error(Code::InvalidArgument, "no {}:{} is registered", name_of(collective), name);
    return *found;
  }
  std::vector<RankPlan> plans(Rank n) const { return generate_all(algorithm(), n); }
  std::vector<RankPlan> plans(const Shape& shape) const { return generate_all(algorithm(), shape); }
  std::vector<RankPlan> plans(const test::Labels& labels) const {
    return plans({collective, static_cast<Rank>(labels.size()), test::grouping_of(labels)});
  }
  std::vector<Shape> shapes(Rank n) const { return test::shapes_of(algorithm(), n); }
};
inline void PrintTo(const Candidate& candidate, std::ostream* out) {
  *out << name_of(candidate.collective) << ":" << candidate.name;
}

/// check(shape) holds for every shape to prove, and there is at least one.
template <class Check>
testing::AssertionResult for_all_shapes(const Candidate& candidate, const Check& check,
                                        const std::vector<Rank>& ranks = ranks_to_prove()) {
  int shapes = 0;
  for (const Rank n : ranks) {
    for (const Shape& shape : candidate.shapes(n)) {
      if (testing::AssertionResult result = check(shape); !result)
        return result << " (" << test::words_of(shape) << ")";
      ++shapes;
    }
  }
  return shapes > 0 ? testing::AssertionSuccess() : testing::AssertionFailure() << "nothing to prove";
}

inline std::string in_words(const Cost& c) {
  const auto ratio = [](Ratio r) { return fmt::format("{}/{}", r.num(), r.den()); };
  return fmt::format("rounds {}, sent {}, received {}, folded {}, stages {}, message {}, link {}, handled {}", c.rounds,
                     ratio(c.sent), ratio(c.received), ratio(c.folded), c.stages, ratio(c.message),
                     ratio(c.busiest_link()), ratio(c.handled));
}

/// verify() accepts the plans, even with room for one message per link, which is less than the executor promises; and
/// the counted cost is the closed form.
inline testing::AssertionResult is_proven_and_sends_what_it_claims(const Candidate& candidate,
                                                                   const std::vector<Rank>& ranks) {
  const auto check = [&](const Shape& shape) {
    try {
      const Cost does = count(candidate.plans(shape), {.capacity = 1}).cost, claims = candidate.algorithm().cost(shape);
      if (claims.claims(does)) return testing::AssertionSuccess();
      return testing::AssertionFailure() << "does " << in_words(does) << "; claims " << in_words(claims);
    } catch (const Error& error) {  // not proven
      return testing::AssertionFailure() << error.what();
    }
  };
  return for_all_shapes(candidate, check, ranks);
}

/// No send claims a weaker Lend than can be proven, except in a reproducible reduce to a root other than 0.
inline testing::AssertionResult lends_what_it_can(const Candidate& candidate) {
  return for_all_shapes(candidate, [&](const Shape& shape) {
    if (shape.root != 0) return testing::AssertionSuccess();
    const auto missed = count(candidate.plans(shape)).lends_missed;
    if (missed.empty()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "rank " << missed[0].rank << ", lane " << missed[0].lane << ", step "
                                       << missed[0].step << " (and " << missed.size() - 1 << " more)";
  });
}

/// All outputs are folded in the canonical order, for any number of ranks.
inline testing::AssertionResult is_reproducible(const Candidate& candidate) {
  return for_all_shapes(candidate, [&](const Shape& shape) {
    return is_canonical(candidate.plans(shape)) ? testing::AssertionSuccess() : testing::AssertionFailure();
  });
}

/// The plan without step `index` of its table.
inline RankPlan without_step(RankPlan plan, uint32_t index) {
  plan.steps.erase(plan.steps.begin() + index);
  for (Lane& lane : plan.lanes) {
    if (lane.steps.begin > index) --lane.steps.begin;
    if (lane.steps.end > index) --lane.steps.end;
  }
  for (Step& step : plan.steps) {
    if (step.after == kNone || step.after < index) continue;
    step.after = step.after == index ? kNone : step.after - 1;
  }
  return plan;
}

/// Without any single step of any rank, verify() rejects the plans. It names a rank, and a lane and a step unless the
/// lost step is the only one that touches an output.
inline testing::AssertionResult notices_every_lost_step(const Candidate& candidate) {
  std::vector<Shape> shapes;
  for (const Rank n : {2, 3, 5, 6, 8}) {
    for (const Shape& shape : candidate.shapes(n)) shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    const std::vector<RankPlan> whole = candidate.plans(shape);
    for (size_t rank = 0; rank < whole.size(); ++rank) {
      for (uint32_t step = 0; step < whole[rank].steps.size(); ++step) {
        std::vector<RankPlan> plans = whole;
        plans[rank] = without_step(plans[rank], step);
        const Verdict verdict = verify(plans);
        const auto names = [&](const char* word) { return verdict.reason.find(word) != std::string::npos; };
        const bool only_a_copy = whole[rank].steps[step].kind == StepKind::Copy && names("never written");
        if (!verdict && names("rank ") && (only_a_copy || (names("lane ") && names("step ")))) continue;
        return testing::AssertionFailure() << test::words_of(shape) << ": rank " << rank << " without step " << step
                                           << ": " << (verdict ? "accepted" : verdict.reason);
      }
    }
  }
  return testing::AssertionSuccess();
}

/// The steps of rank `me` as text, lane after lane, separated by "|".
inline std::vector<std::string> steps_of(const Candidate& candidate, const Shape& shape, Rank me) {
  const RankPlan plan = generate(candidate.algorithm(), shape, me);
  std::vector<std::string> words;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (lane > 0) words.emplace_back("|");
    for (uint32_t s = plan.lanes[lane].steps.begin; s < plan.lanes[lane].steps.end; ++s) {
      words.push_back(in_words(plan, plan.steps[s]));
    }
  }
  return words;
}
inline std::vector<std::string> steps_of(const Candidate& candidate, Rank n, Rank me) {
  return steps_of(candidate, Shape{candidate.collective, n}, me);
}
inline std::vector<std::string> steps_of(const Candidate& candidate, const test::Labels& labels, Rank me) {
  return steps_of(candidate, Shape{candidate.collective, static_cast<Rank>(labels.size()), test::grouping_of(labels)},
                  me);
}

}  // namespace tutti::plan
