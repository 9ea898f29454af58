#include "sim/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace tutti::sim {
namespace {

/// "step 3: fold of rank 2's message, sent to rank 4".
std::string words_of(const Event& event) {
  std::string text = fmt::format("step {}: ", event.step);
  if (event.from != kNoRank) {
    text += fmt::format("{} rank {}'s message", event.folds ? "folds" : "takes", event.from);
  } else {
    text += event.folds ? "folds" : "copies";
  }
  if (event.to != kNoRank) text += fmt::format(", sends to rank {}", event.to);
  return fmt::format("{}, {} B", text, event.bytes);
}

const char* colour_of(const Event& event) {
  if (event.folds) return "#4c9a3a";
  return event.from == kNoRank ? "#cf8f47" : "#5b7fb5";
}

using Row = std::tuple<Rank, uint32_t, uint32_t>;
Row row_of(const Event& event) { return {event.rank, event.replica, event.lane}; }

}  // namespace

std::string chrome_trace(const Replay& replay, const std::string& title) {
  using nlohmann::ordered_json;
  ordered_json events = ordered_json::array();
  std::map<Rank, std::map<std::pair<uint32_t, uint32_t>, int>> threads;
  for (const Event& event : replay.events) {
    auto& known = threads[event.rank];
    const int thread =
        known.emplace(std::pair(event.replica, event.lane), static_cast<int>(known.size())).first->second;
    events.push_back({{"ph", "X"},
                      {"pid", event.rank},
                      {"tid", thread},
                      {"ts", event.begin * 1e6},
                      {"dur", (event.end - event.begin) * 1e6},
                      {"name", words_of(event)},
                      {"args", {{"round", event.round}, {"bytes", event.bytes}}}});
  }
  for (const auto& [rank, known] : threads) {
    events.push_back(
        {{"ph", "M"}, {"pid", rank}, {"name", "process_name"}, {"args", {{"name", fmt::format("rank {}", rank)}}}});
    for (const auto& [lane, thread] : known) {
      const std::string name = fmt::format("lane {}, replica {}", lane.second, lane.first);
      events.push_back(
          {{"ph", "M"}, {"pid", rank}, {"tid", thread}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    }
  }
  const ordered_json page{{"otherData", {{"title", title}, {"note", "a model's times, not measured ones"}}},
                          {"displayTimeUnit", "ns"},
                          {"traceEvents", std::move(events)}};
  return page.dump() + "\n";
}

std::string timeline_svg(const Replay& replay, const std::string& title) {
  constexpr double kLeft = 120, kWidth = 1000, kRow = 14, kTop = 50;
  std::map<Row, size_t> rows;
  double until = 0;
  for (const Event& event : replay.events) {
    if (event.rank >= kMaxDrawn) continue;
    rows.emplace(row_of(event), 0);
    until = std::max(until, event.end);
  }
  size_t number = 0;
  for (auto& [row, at] : rows) at = number++;
  const double height = kTop + kRow * static_cast<double>(number) + 40, scale = until > 0 ? kWidth / until : 0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n<text x=\"10\" y=\"20\" font-size=\"14\">{2}</text>\n<text x=\"10\" y=\"36\" "
      "fill=\"#777777\">a model's times, not measured ones; {3:.3g} us of the first rounds</text>\n",
      kLeft + kWidth + 20, height, title, until * 1e6);
  for (const auto& [row, at] : rows) {
    svg +=
        fmt::format("<text x=\"10\" y=\"{:.0f}\">rank {} lane {}.{}</text>\n",
                    kTop + kRow * static_cast<double>(at) + 10, std::get<0>(row), std::get<2>(row), std::get<1>(row));
  }
  for (const Event& event : replay.events) {
    if (event.rank >= kMaxDrawn) continue;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}</title></rect>\n",
        kLeft + event.begin * scale, kTop + kRow * static_cast<double>(rows.at(row_of(event))),
        std::max(0.5, (event.end - event.begin) * scale), kRow - 2, colour_of(event), words_of(event));
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::sim
