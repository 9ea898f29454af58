#include "tools/trace/calls.hpp"

#include <cstdint>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

using nlohmann::json;

constexpr uint64_t kLatest = uint64_t{1} << 61;  // nanoseconds, 73 years: sums of a few fit

[[noreturn]] void refuse(const std::string& why) {
  throw_error(Code::InvalidArgument, "this is not a trace of Tutti's: {}", why);
}

uint64_t count_of(const json& value) {
  const bool is_whole = value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  if (!is_whole) refuse(fmt::format("'{}' in place of a whole number", value.dump().substr(0, 100)));
  return value.get<uint64_t>();
}

int64_t time_of(const json& value) {
  const uint64_t time = count_of(value);
  if (time > kLatest) refuse("a time is too large");
  return static_cast<int64_t>(time);
}

/// −1: it is not known.
int64_t rank_in(const json& value) {
  if (value.is_number_integer() && value.get<int64_t>() == -1) return -1;
  const uint64_t rank = count_of(value);
  if (rank > INT32_MAX) refuse("a rank is too large");
  return static_cast<int64_t>(rank);
}

/// Reads the events of a rank, in their order.
class Reader {
 public:
  explicit Reader(RankCalls& rank) : calls_(rank.calls) {}

  void read(const json& event) {
    const auto kind = event.at(0).get<std::string>();
    const int64_t at = time_of(event.at(1));
    if (kind == "enter" || kind == "within" || kind == "enqueue") return begin(event, kind, at);
    if (kind == "leave") return leave(at, count_of(event.at(2)));
    if (kind == "wait") return wait(rank_in(event.at(3)), time_of(event.at(2)), at);
    refuse(fmt::format("an event '{}'", kind));
  }

 private:
  void begin(const json& event, const std::string& kind, int64_t at) {
    TracedCall call{.number = count_of(event.at(2)),
                    .text = event.at(3).get<std::string>(),
                    .bytes = count_of(event.at(4)),
                    .enqueued = kind == "enqueue",
                    .exact = kind != "within",
                    .entered = at};
    if (event.size() > 5) {
      call.peer = rank_in(event.at(5));
      const auto direction = event.at(6).get<std::string>();
      call.kind = direction == "on"   ? TracedCall::Kind::OneSided
                  : direction == "to" ? TracedCall::Kind::Send
                                      : TracedCall::Kind::Recv;
    }
    // Of a group, all transfers have begun before one ends; of others, one whose end is missing has ended by now.
    if (call.kind == TracedCall::Kind::Collective || call.kind == TracedCall::Kind::OneSided) open_ = 0;
    if (!call.enqueued) ++open_;
    calls_.push_back(std::move(call));
  }
  void leave(int64_t at, uint64_t error) {
    for (size_t i = calls_.size() - open_; i < calls_.size(); ++i) {
      calls_[i].left = at;
      calls_[i].error = error;
    }
    open_ = 0;
  }
  void wait(int64_t peer, int64_t began, int64_t ended) {
    if (open_ > 0 && began <= ended) calls_.back().waits.push_back({peer, began, ended});
  }

  std::vector<TracedCall>& calls_;
  size_t open_ = 0;  // of the last calls: they have not ended
};

RankCalls rank_of(const json& page) {
  RankCalls rank{.communicator = page.at("communicator").get<std::string>(),
                 .title = page.at("title").get<std::string>(),
                 .rank = rank_in(page.at("rank")),
                 .ranks = rank_in(page.at("ranks")),
                 .earlier = count_of(page.at("earlier")),
                 .calls = {}};
  Reader reader(rank);
  for (const json& event : page.at("events")) reader.read(event);
  return rank;
}

}  // namespace

ProcessCalls read_trace(const json& page) {
  try {
    if (!page.is_object() || !page.contains("tutti_trace")) refuse("it has no 'tutti_trace'");
    if (page.at("tutti_trace") != 1) refuse("its version is not 1: read it with the tutti that wrote it");
    ProcessCalls process{.host = page.at("host").get<std::string>(),
                         .process = static_cast<uint32_t>(rank_in(page.at("process"))),
                         .now = time_of(page.at("now")),
                         .wall = time_of(page.at("wall")),
                         .ranks = {}};
    for (const json& rank : page.at("ranks")) process.ranks.push_back(rank_of(rank));
    return process;
  } catch (const json::exception& error) {
    refuse(error.what());
  }
}

std::string name_of(const TracedCall& call) { return call.text.substr(0, call.text.find('(')); }

}  // namespace tutti::tools
