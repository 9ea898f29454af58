// Timelines as pictures, and what `tutti sim` draws of a replay.
#include <gtest/gtest.h>

#include <regex>

#include "tools/sim/picture.hpp"
#include "tools/timeline.hpp"

namespace tutti::tools {
namespace {

size_t matches_of(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), expression), {}));
}

/// The boxes whose text under the pointer is this, as (x, y, width, height).
std::vector<std::array<double, 4>> boxes(const std::string& svg, const std::string& title) {
  const std::regex expression("<rect x='([0-9.]+)' y='([0-9.]+)' width='([0-9.]+)' height='([0-9.]+)'[^>]*><title>" +
                              title + "</title>");
  std::vector<std::array<double, 4>> found;
  for (std::sregex_iterator at(svg.begin(), svg.end(), expression), end; at != end; ++at) {
    found.push_back({std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  }
  return found;
}

TimelinePicture picture_with(TimelineRow row) { return {"T", {}, {{"rank 0", "", {std::move(row)}}}}; }

TEST(TimelinePicture, HasALegendOfItsKindsAlone) {
  const std::string svg =
      to_svg(picture_with({"compute", false, {{0, 1, "forward", "", "a"}, {1, 2, "what", "", "b"}}}));
  EXPECT_NE(svg.find(">forward</text>"), std::string::npos);
  EXPECT_NE(svg.find(">other calls</text>"), std::string::npos);  // a kind that has no colour of its own
  EXPECT_EQ(svg.find(">backward</text>"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_EQ(svg.find("</svg>"), svg.size() - 7);
}

TEST(TimelinePicture, DrawsTimesToScale) {
  const std::string svg = to_svg(picture_with({"r", false, {{2, 3, "forward", "", "a"}, {4, 6, "forward", "", "b"}}}));
  const auto a = boxes(svg, "a"), b = boxes(svg, "b");
  ASSERT_EQ(a.size(), 1u);
  ASSERT_EQ(b.size(), 1u);
  EXPECT_NEAR(b[0][2] / a[0][2], 2, 0.02);
  EXPECT_NEAR((b[0][0] - a[0][0]) / a[0][2], 2, 0.02);
}

TEST(TimelinePicture, BarsThatOverlapShareTheHeight) {
  const TimelineRow row{"r", true, {{0, 10, "send", "", "long"}, {2, 4, "receive", "", "short"}}};
  const std::string svg = to_svg(picture_with(row));
  const auto first = boxes(svg, "long"), second = boxes(svg, "short");
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NEAR(first[0][3], 10, 0.1);
  EXPECT_NEAR(second[0][1], first[0][1] + 10, 0.1);
}

TEST(TimelinePicture, PartsLieWithinTheirWhole) {
  const TimelineRow row{"r",
                        false,
                        {{0, 10, "forward", "7", "whole"},
                         {0, 5, "forward", "block.1", "part"},
                         {5, 9, "forward", "block.2", "part"},
                         {9, 10, "wait", "", "waiting"}}};
  const std::string svg = to_svg(picture_with(row));
  const auto whole = boxes(svg, "whole"), part = boxes(svg, "part");
  ASSERT_EQ(whole.size(), 1u);
  ASSERT_EQ(part.size(), 2u);
  EXPECT_EQ(part[0][1], whole[0][1]);
  EXPECT_EQ(part[0][3], whole[0][3]);
  EXPECT_NE(svg.find(">block.2</text>"), std::string::npos);  // parts that have room are named …
  EXPECT_EQ(svg.find(">7</text>"), std::string::npos);        // … and what they are parts of is not
  EXPECT_EQ(matches_of(svg, "fill='url\\(#wait\\)'"), 2u);    // the legend's and the bar
}

TEST(TimelinePicture, WhatCannotBeSeenApartIsOneBox) {
  TimelineRow row{"r", true, {{0, 1, "send", "", "a"}}};
  for (int i = 0; i < 1000; ++i) row.bars.push_back({0.5 + i * 1e-6, 0.5 + (i + 1) * 1e-6, "receive", "", "b"});
  for (int i = 0; i < 6; ++i) row.bars.push_back({0.8, 0.9, "receive", "", "c"});
  const std::string svg = to_svg(picture_with(row));
  EXPECT_EQ(boxes(svg, "b \\(and \\d+ more\\)").size(), 1u);
  EXPECT_EQ(boxes(svg, "c \\(and 5 more\\)").size(), 1u);
}

TEST(TimelinePicture, EscapesWhatMarksUp) {
  const std::string svg =
      to_svg({"a < b & c", {"<note>"}, {{"<g>", "", {{"<r>", false, {{0, 1, "send", "<", "<t>"}}}}}}});
  EXPECT_EQ(matches_of(svg, "<(note|g|r|t)>"), 0u);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
}

TEST(TimelinePicture, OfNothingIsDrawn) { EXPECT_NE(to_svg({"empty", {}, {}}).find("empty"), std::string::npos); }

TEST(SimPicture, HasARowForEachRankAndDirection) {
  sim::Replay replay;
  for (Rank rank = 0; rank < 2; ++rank) {
    for (uint32_t lane = 0; lane < 8; ++lane) {
      replay.events.push_back({.rank = rank, .lane = lane, .bytes = 64, .to = 1 - rank, .begin = 0, .end = 1e-6});
      replay.events.push_back(
          {.rank = rank, .lane = lane, .from = 1 - rank, .folds = true, .begin = 1e-6, .end = 2e-6});
    }
  }
  replay.events.push_back({.rank = 1, .bytes = 64, .begin = 0, .end = 1e-6});
  replay.events.push_back({.rank = kMaxDrawn, .bytes = 64, .begin = 0, .end = 1e-6});
  const TimelinePicture picture = picture_of(replay, "T");
  ASSERT_EQ(picture.groups.size(), 2u);
  ASSERT_EQ(picture.groups[0].rows.size(), 2u);
  ASSERT_EQ(picture.groups[1].rows.size(), 3u);
  EXPECT_EQ(picture.groups[0].rows[0].name, "receives");
  EXPECT_EQ(picture.groups[0].rows[0].bars.size(), 8u);
  EXPECT_EQ(picture.groups[0].rows[0].bars[0].kind, "fold");
  EXPECT_EQ(picture.groups[0].rows[1].name, "sends");
  EXPECT_EQ(picture.groups[0].rows[1].bars[0].kind, "send");
  EXPECT_EQ(picture.groups[1].rows[2].bars[0].kind, "copy");
  EXPECT_NE(picture.notes[0].find("not measured"), std::string::npos);
  EXPECT_NE(picture.notes.back().find("first 64 ranks"), std::string::npos);
  EXPECT_EQ(matches_of(to_svg(picture), ">(sends|receives|local)</text>"), 5u);
}

}  // namespace
}  // namespace tutti::tools
