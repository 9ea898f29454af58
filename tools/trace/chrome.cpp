#include "tools/trace/chrome.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

/// Where in the picture a call is.
struct Place {
  size_t process = 0, thread = 0;
  const TracedCall* call = nullptr;
};

class Picture {
 public:
  explicit Picture(const std::vector<ProcessCalls>& processes) {
    begin_ = std::numeric_limits<int64_t>::max();
    for (const ProcessCalls& process : processes) {
      for (const RankCalls& rank : process.ranks) {
        for (const TracedCall& call : rank.calls) begin_ = std::min(begin_, call.entered);
      }
    }
    for (size_t p = 0; p < processes.size(); ++p) add(processes[p], p);
    for (const auto& [call, places] : collectives_) connect(places);
    for (const auto& [transfer, ends] : transfers_) {
      if (ends.size() != 2 || ends[0].call->kind == ends[1].call->kind) continue;
      const bool first_sends = ends[0].call->kind == TracedCall::Kind::Send;
      arrow(ends[first_sends ? 0 : 1], ends[first_sends ? 1 : 0]);
    }
  }
  ordered_json events = ordered_json::array();

 private:
  double microseconds(int64_t at) const { return static_cast<double>(at - begin_) / 1e3; }

  void name(const char* what, size_t process, size_t thread, const std::string& text) {
    events.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", text}}}});
  }

  void add(const ProcessCalls& process, size_t p) {
    std::string ranks;
    for (const RankCalls& rank : process.ranks) {
      if (ranks.empty()) ranks = fmt::format("rank {} of {}", rank.rank, rank.title);
    }
    name("process_name", p, 0, fmt::format("{} (process {} on {})", ranks, process.process, process.host));
    for (size_t t = 0; t < process.ranks.size(); ++t) {
      const RankCalls& rank = process.ranks[t];
      name("thread_name", p, t, fmt::format("{}, rank {}", rank.title, rank.rank));
      for (const TracedCall& call : rank.calls) add(call, rank, {p, t, &call}, process.now);
    }
  }

  void add(const TracedCall& call, const RankCalls& rank, const Place& place, int64_t now) {
    const int64_t left = call.left != 0 ? call.left : call.enqueued ? call.entered : std::max(now, call.entered);
    ordered_json args{{"communicator", rank.title}, {"call", call.number}, {"bytes", call.bytes}};
    if (call.left == 0) args["state"] = call.enqueued ? "enqueued on a device" : "it had not ended";
    if (call.error != 0) args["error"] = call.error;
    slice(call.text, "call", call.entered, left, place, args);
    for (const TracedWait& wait : call.waits) {
      slice(wait.peer < 0 ? "waits" : fmt::format("waits for rank {}", wait.peer), "wait", wait.began, wait.ended,
            place, ordered_json::object());
    }
    if (call.enqueued || call.kind == TracedCall::Kind::OneSided) return;
    if (call.kind == TracedCall::Kind::Collective) {
      collectives_[{rank.communicator, call.number, call.text}].push_back(place);
    } else {
      const bool sends = call.kind == TracedCall::Kind::Send;
      transfers_[{rank.communicator, sends ? rank.rank : call.peer, sends ? call.peer : rank.rank, call.number}]
          .push_back(place);
    }
  }

  void slice(const std::string& text, const char* kind, int64_t from, int64_t to, const Place& place,
             const ordered_json& args) {
    events.push_back({{"ph", "X"},
                      {"name", text},
                      {"cat", kind},
                      {"ts", microseconds(from)},
                      {"dur", static_cast<double>(std::max<int64_t>(0, to - from)) / 1e3},
                      {"pid", place.process},
                      {"tid", place.thread},
                      {"args", args}});
  }

  /// From the rank that came last to those that had waited for long.
  void connect(const std::vector<Place>& places) {
    const auto last = std::max_element(
        places.begin(), places.end(), [](const Place& a, const Place& b) { return a.call->entered < b.call->entered; });
    for (const Place& place : places) {
      const bool waited = std::any_of(place.call->waits.begin(), place.call->waits.end(),
                                      [&](const TracedWait& wait) { return wait.began < last->call->entered; });
      if (&place != &*last && waited && place.call->left >= last->call->entered) arrow(*last, place);
    }
  }

  void arrow(const Place& from, const Place& to) {
    const int64_t end = to.call->left != 0 ? to.call->left : to.call->entered;
    for (const bool starts : {true, false}) {
      const Place& place = starts ? from : to;
      ordered_json event{{"ph", starts ? "s" : "f"},
                         {"name", "came last"},
                         {"cat", "flow"},
                         {"id", arrows_},
                         {"ts", microseconds(starts ? from.call->entered : end)},
                         {"pid", place.process},
                         {"tid", place.thread}};
      if (from.call->kind != TracedCall::Kind::Collective) event["name"] = "message";
      if (!starts) event["bp"] = "e";  // to the slice that encloses it
      events.push_back(std::move(event));
    }
    ++arrows_;
  }

  int64_t begin_ = 0;
  uint64_t arrows_ = 0;
  std::map<std::tuple<std::string, uint64_t, std::string>, std::vector<Place>> collectives_;
  std::map<std::tuple<std::string, int64_t, int64_t, uint64_t>, std::vector<Place>> transfers_;
};

}  // namespace

std::string chrome_trace(const std::vector<ProcessCalls>& processes) {
  Picture picture(processes);
  const ordered_json page{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(picture.events)}};
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::tools
