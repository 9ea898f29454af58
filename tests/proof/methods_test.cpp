// What runs is what was proven: for each method and algorithm, the lowered programs of all ranks are executed on
// symbols.
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

constexpr Rank kMaxRanks = 16;

/// Calls visit(shape, plans) for all that the method runs.
template <class Visit>
void each_run(const Method& method, const plan::Algorithm& algorithm, const Visit& visit) {
  for (Rank n = 1; n <= kMaxRanks; ++n) {
    for (const plan::Shape& shape : test::shapes_of(algorithm, n)) {
      const auto plans = plan::generate_all(algorithm, shape);
      if (why_not(method, plans).empty()) visit(shape, plans);
    }
  }
}

bool runs_some(const Method& method, const plan::Algorithm& algorithm) {
  bool some = method.accepts == nullptr;
  if (!some) each_run(method, algorithm, [&](const auto&, const auto&) { some = true; });
  return some;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const exec::MemoryKind memory : {exec::MemoryKind::Host, exec::MemoryKind::Device}) {
    for (const Method* method : exec::methods_for(memory)) {
      for (int collective = 0; collective < kCollectives; ++collective) {
        for (const plan::Algorithm* algorithm : plan::algorithms_of(static_cast<Collective>(collective))) {
          if (runs_some(*method, *algorithm)) all.push_back({method, algorithm});
        }
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

class Methods : public testing::TestWithParam<Case> {};

TEST_P(Methods, RunWhatWasProven) {
  const auto [method, algorithm] = GetParam();
  int proven = 0;
  each_run(*method, *algorithm, [&, how = method](const plan::Shape& shape, const auto& plans) {
    const bool other_order = shape.groups == nullptr && shape.root == 0 && shape.ranks % 2 == 1;
    for (NamedSetting& one : settings_of(*how, plans.front())) {
      exec::Geometry& geometry = one.setting.geometry;
      geometry.root = shape.root;
      if (other_order) geometry.order = dealt_out(shape.ranks);
      if (other_order && has_root(shape.collective)) geometry.root = shape.ranks / 2;
      const plan::Verdict verdict = prove(plans, one.setting);
      EXPECT_TRUE(verdict) << test::words_of(shape) << ", " << one.name << ": " << verdict.reason;
      ++proven;
    }
  });
  EXPECT_GT(proven, 0);
}

/// The tests of this folder are called by the methods' names.
TEST(EveryMethod, IsProvenByATestOfItsOwn) {
  std::string names;
  for (const exec::MemoryKind memory : {exec::MemoryKind::Host, exec::MemoryKind::Device}) {
    for (const Method* method : exec::methods_for(memory)) names += fmt::format("{} ", method->name);
  }
  EXPECT_EQ(names, "lanes slots ll ll128 copy_engine nvls ");
}

INSTANTIATE_TEST_SUITE_P(Proof, Methods, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace tutti::proof
