#include "comm/rank_timing.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "comm/call_board.hpp"
#include "comm/call_trace.hpp"

namespace tutti::comm {
namespace {

using trace::Event;

constexpr uint64_t kRecent = 2'000'000'000;  // nanoseconds: those before have been asked for already

struct LeftCall {
  uint64_t number = 0, left = 0, in_calls = 0, thread = 0;
};

bool is_waited_for_by_all(const CallSpec& spec) {
  if (spec.is_control() || spec.is_vector) return false;
  switch (spec.collective) {
    case Collective::Barrier:
      return true;
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll:
      return spec.count > 0;
    default:
      return false;
  }
}

/// Those that began alone, and have ended well.
std::vector<LeftCall> left_calls(const std::vector<Event>& events, uint64_t since) {
  std::vector<LeftCall> calls;
  const Event* open = nullptr;
  size_t begun = 0;  // several: a group
  for (const Event& event : events) {
    if (event.kind == Event::Kind::Waited || event.kind == Event::Kind::Enqueued) continue;
    if (event.kind == Event::Kind::Left) {
      const bool counts = begun == 1 && open != nullptr && event.first == 0 && event.at >= since;
      if (counts) {
        calls.push_back({.number = open->call, .left = event.at, .in_calls = event.second, .thread = event.call});
      }
      open = nullptr;
      begun = 0;
      continue;
    }
    ++begun;
    const auto spec = unpack_spec(event.first, event.second);
    open = spec && is_waited_for_by_all(*spec) ? &event : nullptr;
  }
  return calls;
}

/// The rarity from which on there are few enough.
uint32_t least_rarity(const std::vector<LeftCall>& calls) {
  std::array<size_t, 65> by_rarity{};
  for (const LeftCall& call : calls) ++by_rarity[CallTrace::rarity(call.number)];
  size_t kept = 0;
  uint32_t least = by_rarity.size();
  while (least > 0 && kept + by_rarity[least - 1] <= control::RankTiming::kMaxCalls) kept += by_rarity[--least];
  return least;
}

}  // namespace

control::RankTiming timing_of(const std::vector<trace::Event>& events) {
  control::RankTiming timing;
  timing.now = trace::nanoseconds(trace::Clock::now());
  std::vector<LeftCall> calls = left_calls(events, timing.now - std::min(timing.now, kRecent));
  if (calls.empty()) return timing;
  timing.thread = calls.back().thread;
  std::erase_if(calls, [&](const LeftCall& call) { return call.thread != timing.thread; });
  const uint32_t least = least_rarity(calls);
  for (const LeftCall& call : calls) {
    if (CallTrace::rarity(call.number) < least) continue;
    timing.numbers.push_back(call.number);
    timing.left.push_back(call.left);
    timing.in_calls.push_back(call.in_calls);
  }
  return timing;
}

}  // namespace tutti::comm
