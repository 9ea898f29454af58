#include "tools/sim/picture.hpp"

#include <algorithm>
#include <map>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "sim/draw.hpp"

namespace tutti::tools {
namespace {

enum Direction : uint8_t { Receives, Sends, Local };
constexpr const char* kNames[] = {"receives", "sends", "local"};

struct RankRows {
  TimelineRow rows[3];
  void add(Direction direction, const sim::Event& event, const char* kind, const std::string& label) {
    TimelineRow& row = rows[direction];
    row.name = kNames[direction];
    row.side_by_side = true;
    row.bars.push_back({event.begin, event.end, kind, label,
                        fmt::format("{}, window {}: {} µs at {} µs", sim::words_of(event), event.round,
                                    time_digits((event.end - event.begin) * 1e6), time_digits(event.begin * 1e6))});
  }
};

}  // namespace

TimelinePicture picture_of(const sim::Replay& replay, const std::string& title) {
  std::map<Rank, RankRows> ranks;
  Rank last = 0;
  double until = 0;
  for (const sim::Event& event : replay.events) {
    last = std::max(last, event.rank);
    if (event.rank >= kMaxDrawn) continue;
    until = std::max(until, event.end);
    RankRows& rank = ranks[event.rank];
    if (event.from != kNoRank) rank.add(Receives, event, event.folds ? "fold" : "receive", std::to_string(event.from));
    if (event.to != kNoRank) rank.add(Sends, event, "send", std::to_string(event.to));
    if (event.from == kNoRank && event.to == kNoRank) rank.add(Local, event, event.folds ? "fold" : "copy", "");
  }
  TimelinePicture picture{.title = title, .notes = {}, .groups = {}};
  for (auto& [rank, rows] : ranks) {
    TimelineGroup& group = picture.groups.emplace_back(TimelineGroup{fmt::format("rank {}", rank), "", {}});
    for (TimelineRow& row : rows.rows) {
      if (!row.bars.empty()) group.rows.push_back(std::move(row));
    }
  }
  picture.notes.push_back(
      fmt::format("A model's times, not measured ones: {} in {} µs. Numbers are the ranks at the other end. Lanes that "
                  "are at work at the same time share a row's height.",
                  counted(replay.events.size(), "instruction", "instructions"), time_digits(until * 1e6)));
  if (last >= kMaxDrawn) picture.notes.push_back(fmt::format("Only the first {} ranks are drawn.", kMaxDrawn));
  return picture;
}

}  // namespace tutti::tools
