// What runs is what was proven: for each method and algorithm, the lowered programs of all ranks are executed
// symbolically.
#include <gtest/gtest.h>

#include "proof/cases.hpp"
#include "proof/run.hpp"
#include "support/prove.hpp"

namespace tutti::proof {
namespace {

using exec::Method;

struct Case {
  const Method* method;
  const plan::Algorithm* algorithm;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.method->name << " and " << one.algorithm->name; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<Rank> kRanks = {1, 2, 3, 4, 5, 8};  // others run the same code, for minutes
#else
const std::vector<Rank> kRanks = {1, 2, 3, 4, 5, 6, 7, 8};
#endif
const std::vector<Rank> kOtherRanks = {9, 10, 11, 12, 13, 14, 15, 16};

/// Calls visit(shape, plans) for all that the method runs.
template <class Visit>
void each_run(const Method& method, const plan::Algorithm& algorithm, const std::vector<Rank>& ranks,
              const Visit& visit) {
  for (const Rank n : ranks) {
    for (const plan::Shape& shape : test::shapes_of(algorithm, n)) {
      const auto plans = plan::generate_all(algorithm, shape);
      if (why_not(method, plans).empty()) visit(shape, plans);
    }
  }
}

bool runs_some(const Method& method, const plan::Algorithm& algorithm) {
  bool some = method.accepts == nullptr && *method.why_no_barrier == '\0';
  if (!some) each_run(method, algorithm, kRanks, [&](const auto&, const auto&) { some = true; });
  return some;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Method* method : exec::all_methods()) {
    for (int collective = 0; collective < kCollectives; ++collective) {
      for (const plan::Algorithm* algorithm : plan::algorithms_of(static_cast<Collective>(collective))) {
        if (runs_some(*method, *algorithm)) all.push_back({method, algorithm});
      }
    }
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}_{}", info.param.method->name, tutti::name_of(info.param.algorithm->collective),
                     info.param.algorithm->name);
}

/// Ranks dealt out in turn: 0, 2, 4, … 1, 3, …
plan::RankOrder dealt_out(Rank n) {
  std::vector<Rank> ranks;
  for (Rank first = 0; first < 2; ++first) {
    for (Rank rank = first; rank < n; rank += 2) ranks.push_back(rank);
  }
  return plan::RankOrder(ranks);
}

/// The cases of a shape. Odd numbers of ranks stand in another order, with another root.
int prove_shape(const Method& method, const plan::Shape& shape, const std::vector<plan::RankPlan>& plans) {
  const bool other_order = shape.groups == nullptr && shape.root == 0 && shape.ranks % 2 == 1;
  int proven = 0;
  for (CallCase& one : cases_of(method, plans.front())) {
    one.geometry.root = shape.root;
    if (other_order) one.geometry.order = dealt_out(shape.ranks);
    if (other_order && has_root(shape.collective)) one.geometry.root = shape.ranks / 2;
    const plan::Verdict verdict = prove(plans, one);
    EXPECT_TRUE(verdict) << test::words_of(shape) << ", " << one.name << ": " << verdict.reason;
    ++proven;
  }
  return proven;
}

class Methods : public testing::TestWithParam<Case> {
 protected:
  int prove_all(const std::vector<Rank>& ranks) const {
    const auto [method, algorithm] = GetParam();
    int proven = 0;
    each_run(*method, *algorithm, ranks,
             [&, how = method](const auto& shape, const auto& plans) { proven += prove_shape(*how, shape, plans); });
    return proven;
  }
};

TEST_P(Methods, RunWhatWasProven) { EXPECT_GT(prove_all(kRanks), 0); }
TEST_P(Methods, RunWhatWasProvenOnOtherNumbersOfRanks) { prove_all(kOtherRanks); }

/// Each method has a test of its own in CMakeLists.txt, by its name.
TEST(EveryMethod, IsProvenByATestOfItsOwn) {
  std::string names;
  for (const Method* method : exec::all_methods()) names += fmt::format("{} ", method->name);
  EXPECT_EQ(names, "lanes slots get ll ll128 copy_engine nvls ");
}

INSTANTIATE_TEST_SUITE_P(Proof, Methods, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace tutti::proof
