#include "sim/draw.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace tutti::sim {
namespace {

/// As `tutti trace` colours them.
const char* kind_of(const Event& event) {
  if (event.from == kNoRank) return event.to == kNoRank ? (event.folds ? "fold" : "copy") : "send";
  return event.folds ? "fold" : "receive";
}

}  // namespace

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
                      {"cat", kind_of(event)},
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

}  // namespace tutti::sim
