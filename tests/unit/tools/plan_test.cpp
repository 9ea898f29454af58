// What `tutti plan draw` makes of plans.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/prove.hpp"
#include "tools/plan/draw.hpp"
#include "tools/plan/timeline.hpp"

namespace tutti::tools {
namespace {

using plan::Candidate;

TEST(Timeline, OfARingShowsEachSumOnItsWay) {
  const auto flights = timeline(Candidate{Collective::AllReduce, "ring"}.plans(3));
  std::vector<std::string> of_rank_1;
  for (const Flight& f : flights) {
    if (f.from == 1) of_rank_1.push_back(fmt::format("{}-{} to {}: {}", f.depart, f.arrive, f.to, f.what));
  }
  EXPECT_EQ(of_rank_1, (std::vector<std::string>{"0-1 to 2: 1: in[1/3]", "1-2 to 2: 0+1: scratch[0/3]",
                                                 "2-3 to 2: 0..2: out[2/3]", "3-4 to 2: 0..2: out[1/3]"}));
}

class EveryTimeline : public testing::TestWithParam<int> {};

TEST_P(EveryTimeline, EndsWithEveryMessageAfterAsManyRoundsAsClaimed) {
  const auto collective = static_cast<Collective>(GetParam());
  for (const plan::Algorithm* algorithm : plan::algorithms_of(collective)) {
    for (Rank n = 1; n <= 9; ++n) {
      if (!algorithm->allows({collective, n})) continue;
      const auto plans = plan::generate_all(*algorithm, n);
      size_t messages = 0;
      for (const plan::RankPlan& plan : plans) {
        for (const plan::Step& step : plan.steps) messages += step.kind == plan::StepKind::Send ? step.peers.size() : 0;
      }
      const auto flights = timeline(plans);
      int end = 0;
      for (const Flight& f : flights) end = std::max(end, f.arrive);
      EXPECT_EQ(flights.size(), messages) << algorithm->name << ", n = " << n;
      EXPECT_LE(end, algorithm->cost({collective, n}).rounds) << algorithm->name << ", n = " << n;
      EXPECT_TRUE(std::is_sorted(flights.begin(), flights.end(),
                                 [](const Flight& a, const Flight& b) { return a.depart < b.depart; }));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Catalogue, EveryTimeline, testing::Range(0, kCollectives));

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Drawing, HasAnArrowForEachMessageAndALineForEachRank) {
  const auto plans = Candidate{Collective::AllReduce, "recursive_doubling"}.plans(4);
  const std::string svg = draw_svg(plans, "a < b & c");
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(count_of(svg, "marker-end"), timeline(plans).size());
  for (int r = 0; r < 4; ++r) EXPECT_EQ(count_of(svg, fmt::format(">rank {}<", r)), 1u);
  EXPECT_EQ(count_of(svg, "a &lt; b &amp; c"), 1u);
  EXPECT_EQ(count_of(svg, "<text"), count_of(svg, "</text>"));
}

TEST(Drawing, OfOneRankIsAPictureToo) {
  EXPECT_NE(draw_svg(Candidate{Collective::AllReduce, "ring"}.plans(1), "alone").find("rank 0"), std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
