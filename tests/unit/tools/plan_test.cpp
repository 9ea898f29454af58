// The pictures of `tutti plan draw`.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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

double number_after(const std::string& text, const std::string& word, size_t from = 0) {
  return std::stod(text.substr(text.find(word, from) + word.size()));
}

TEST(Drawing, HasRoomForItsTextsHoweverNarrow) {
  const struct {
    Candidate candidate;
    Rank ranks;
  } narrow[] = {{{Collective::AllReduce, "recursive_doubling"}, 6},
                {{Collective::AllGather, "one_shot"}, 8},
                {{Collective::AllReduce, "four_rings"}, 2},
                {{Collective::Gather, "linear"}, 6}};
  constexpr double kCharacter = 6.2;  // of 11 pixels, in wide fonts
  for (const auto& [candidate, ranks] : narrow) {
    const std::string svg = draw_svg(candidate.plans(ranks), "short");
    const double width = number_after(svg, " width=\""), height = number_after(svg, " height=\"");
    EXPECT_GE(number_after(draw_svg(candidate.plans(ranks), std::string(50, 'm')), " width=\""), 50 * 9);
    size_t legend_lines = 0;
    for (size_t at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", at + 1)) {
      const size_t open = svg.find('>', at), close = svg.find("</text>", at);
      EXPECT_LT(number_after(svg, " y=\"", at), height);
      if (svg.find("#444444", at) > open) continue;
      ++legend_lines;
      EXPECT_LE(number_after(svg, " x=\"", at) + kCharacter * static_cast<double>(close - open - 1), width);
    }
    EXPECT_GT(legend_lines, 0u);
  }
}

TEST(Drawing, KeepsTheLabelsOfRank0BelowTheHeadings) {
  const std::string svg = draw_svg(Candidate{Collective::AllReduce, "four_rings"}.plans(5), "four");
  const double headings = number_after(svg, " y=\"", svg.rfind("<text", svg.find(">round 1<")));
  size_t labels = 0;
  for (size_t at = svg.find("paint-order"); at != std::string::npos; at = svg.find("paint-order", at + 1), ++labels) {
    EXPECT_GE(number_after(svg, " y=\"", svg.rfind("<text", at)), headings + 12);
  }
  EXPECT_GT(labels, 0u);
}

TEST(Drawing, ExplainsTheLabelsThatItHas) {
  const std::string gather = draw_svg(Candidate{Collective::AllGather, "ring"}.plans(4), "gather");
  EXPECT_EQ(count_of(gather, "\"#2\" is block 2"), 1u);
  EXPECT_EQ(count_of(gather, "is the sum of"), 0u);
  EXPECT_GT(count_of(gather, ">out#0<"), 0u);
  const std::string sum = draw_svg(Candidate{Collective::AllReduce, "ring"}.plans(4), "sum");
  EXPECT_EQ(count_of(sum, "\"#2\" is block 2"), 0u);
  EXPECT_EQ(count_of(sum, "is the sum of"), 1u);
  EXPECT_EQ(count_of(sum, "out#0"), 0u);
}

TEST(Timeline, CountsFromTheRoot) {
  for (const Rank root : {0, 2, 4}) {
    for (const Flight& f : timeline(Candidate{Collective::Scatter, "linear"}.plans(5), root)) {
      EXPECT_EQ(f.from, root);
      EXPECT_EQ(f.what, fmt::format("in#{}", f.to));
    }
    const auto tree = timeline(Candidate{Collective::Broadcast, "binomial"}.plans(5), root);
    EXPECT_EQ(tree.front().from, root);
    for (const Flight& f : tree) EXPECT_NE(f.to, root);
    for (const Flight& f : timeline(Candidate{Collective::Reduce, "binomial"}.plans(5), root)) {
      const std::string contributors = f.what.substr(0, f.what.find(": "));
      EXPECT_EQ(contributors.find(fmt::format("{}", root)), std::string::npos) << f.what;
      EXPECT_NE(f.from, root) << f.what;
    }
  }
}

/// Positions of the labels, row by row.
std::map<double, std::vector<std::pair<double, size_t>>> labels_of(const std::string& svg) {
  std::map<double, std::vector<std::pair<double, size_t>>> rows;  // x, characters
  for (size_t at = svg.find("paint-order"); at != std::string::npos; at = svg.find("paint-order", at + 1)) {
    const size_t begin = svg.rfind("<text", at), open = svg.find('>', at), close = svg.find("</text>", at);
    rows[number_after(svg, " y=\"", begin)].emplace_back(number_after(svg, " x=\"", begin), close - open - 1);
  }
  return rows;
}

TEST(Drawing, OfManyRanksHasWordsForSomeAndThemReadable) {
  for (const char* algorithm : {"ring", "recursive_doubling", "two_shot", "circulant", "binomial"}) {
    for (const Rank ranks : {12, 13, 32, 64}) {
      const std::string svg = draw_svg(Candidate{Collective::AllReduce, algorithm}.plans(ranks), "many");
      const bool thinned = ranks > 12;
      EXPECT_EQ(count_of(svg, "Strong,"), thinned ? 1u : 0u);
      for (Rank r = 0; r < ranks; ++r) EXPECT_EQ(count_of(svg, fmt::format(">rank {}<", r)), 1u);
      const auto rows = labels_of(svg);
      EXPECT_FALSE(rows.empty());
      EXPECT_LE(rows.size(), thinned ? 14u : 24u) << algorithm << " on " << ranks;  // two lines for a rank
      double before = -100;
      for (const auto& [y, row] : rows) {
        EXPECT_GE(y - before, 11.9) << algorithm << " on " << ranks;
        before = y;
      }
    }
  }
}

TEST(Drawing, OfOneRanksViewHasItsMessagesOnly) {
  const auto plans = Candidate{Collective::AllReduce, "recursive_doubling"}.plans(16);
  const std::string svg = draw_svg(plans, "five", {.rank = 5});
  const auto flights = timeline(plans);
  const auto mine =
      std::count_if(flights.begin(), flights.end(), [](const Flight& f) { return f.from == 5 || f.to == 5; });
  EXPECT_EQ(count_of(svg, "marker-end"), static_cast<size_t>(mine));
  EXPECT_EQ(count_of(svg, ">rank 5<"), 1u);
  EXPECT_EQ(count_of(svg, ">rank 7<"), 1u);
  EXPECT_EQ(count_of(svg, ">rank 6<"), 0u) << "a rank that it has nothing to do with";
  EXPECT_EQ(count_of(svg, "Strong"), 0u);
}

TEST(Drawing, OfOneRankIsAPictureToo) {
  EXPECT_NE(draw_svg(Candidate{Collective::AllReduce, "ring"}.plans(1), "alone").find("rank 0"), std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
