#include "trace/rank_trace.hpp"

#include <time.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "base/version.hpp"

namespace tutti::trace {
namespace {

/// A call's text has no character that JSON would have to escape.
void write(std::string& out, const char* kind, const Event& event, const TracedCall& call) {
  const auto to = std::back_inserter(out);
  fmt::format_to(to, R"(["{}",{},{},"{}",{})", kind, event.at, call.number, call.text, call.bytes);
  const char* const direction = call.one_sided ? "on" : call.sends ? "to" : "from";
  if (call.one_sided || call.peer != kNoRank) fmt::format_to(to, R"(,{},"{}")", call.peer, direction);
  out += ']';
}

void write(std::string& out, const Event& event, const RankTrace& rank) {
  switch (event.kind) {
    case Event::Kind::Entered:
      return write(out, "enter", event, rank.call(event));
    case Event::Kind::Within:
      return write(out, "within", event, rank.call(event));
    case Event::Kind::Enqueued:
      return write(out, "enqueue", event, rank.call(event));
    case Event::Kind::Left:
      fmt::format_to(std::back_inserter(out), R"(["leave",{},{}])", event.at, event.first);
      return;
    case Event::Kind::Waited:
      break;
  }
  fmt::format_to(std::back_inserter(out), R"(["wait",{},{},{}])", event.at, event.second,
                 static_cast<Rank>(event.first));
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

uint64_t wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

std::string to_json(const RankTrace& rank) {
  std::string out = fmt::format(R"({{"communicator":{},"title":{},"rank":{},"ranks":{},"earlier":{},"events":[)",
                                quoted(rank.communicator.substr(0, 8)), quoted(rank.title), rank.rank, rank.ranks,
                                rank.events.earlier);
  for (const Event& event : rank.events.last) {
    if (out.back() == ']') out += ',';
    write(out, event, rank);
  }
  return out + "]}";
}

std::string to_json(const ProcessTrace& process) {
  std::string out =
      fmt::format(R"({{"tutti_trace":{},"host":{},"process":{},"version":{},"now":{},"wall":{},"omitted":{},"ranks":[)",
                  kTraceFormat, quoted(process.host), process.process, quoted(version()), nanoseconds(Clock::now()),
                  wall_clock(), process.omitted);
  for (size_t i = 0; i < process.ranks.size(); ++i) out += (i > 0 ? "," : "") + process.ranks[i];
  return out + "]}\n";
}

}  // namespace tutti::trace
