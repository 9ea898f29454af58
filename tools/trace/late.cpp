#include "tools/trace/late.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tutti::tools {
namespace {

double seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

double median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return seconds(*middle);
}

struct Entry {
  int64_t rank = 0;
  const TracedCall* call = nullptr;
};
using Entries = std::vector<Entry>;

struct Calls {
  std::string title;
  std::set<int64_t> ranks;                                          // that have a trace
  int64_t size = 0;                                                 // ranks of the communicator
  std::map<std::pair<uint64_t, std::string>, Entries> collectives;  // by number and text
};

std::map<std::string, Calls> by_communicator(const std::vector<ProcessCalls>& processes) {
  std::map<std::string, Calls> all;
  for (const ProcessCalls& process : processes) {
    for (const RankCalls& rank : process.ranks) {
      Calls& calls = all[rank.communicator];
      calls.title = rank.title;
      calls.size = rank.ranks;
      calls.ranks.insert(rank.rank);
      for (const TracedCall& call : rank.calls) {
        if (call.kind != TracedCall::Kind::Collective || call.enqueued) continue;
        calls.collectives[{call.number, call.text}].push_back({rank.rank, &call});
      }
    }
  }
  return all;
}

/// Of the calls of one kind that a trace has.
struct Numbers {
  uint64_t calls = 0, first = 0, last = 0;
  void add(uint64_t number) {
    if (calls++ == 0) first = number;
    last = std::max(last, number);
  }
  bool are_sampled() const { return calls > 0 && last - first + 1 > calls + calls / 16; }
};

/// What a collective's calls add up to.
struct Sums {
  Lateness found;
  int64_t first = 0, end = 0;
  std::map<int64_t, std::vector<int64_t>> late_by;        // by rank
  std::map<int64_t, int64_t> lost;                        // likewise
  std::map<std::pair<int64_t, int64_t>, int64_t> waited;  // by rank and peer

  /// False if it is not known which rank came last: that of the latest entry may have entered before.
  bool take(const Entries& entries) {
    const auto last = std::max_element(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.call->entered < b.call->entered;
    });
    if (!last->call->exact) return false;
    const int64_t all_in = last->call->entered;
    std::vector<int64_t> others;
    if (found.calls++ == 0) first = all_in;
    for (const Entry& entry : entries) {
      const TracedCall& call = *entry.call;
      const int64_t left = call.left == 0 ? all_in : call.left;
      first = std::min(first, call.entered);
      end = std::max(end, std::max(left, call.entered));
      for (const TracedWait& wait : call.waits) {
        const int64_t began = std::max(wait.began, all_in);
        if (wait.peer >= 0 && wait.ended > began) waited[{entry.rank, wait.peer}] += wait.ended - began;
      }
      if (&entry == &*last) continue;
      others.push_back(call.entered);
      lost[last->rank] += std::max<int64_t>(0, std::min(all_in, left) - call.entered);
    }
    const auto middle = others.begin() + static_cast<ptrdiff_t>(others.size() / 2);
    std::nth_element(others.begin(), middle, others.end());
    late_by[last->rank].push_back(all_in - *middle);
    return true;
  }

  Lateness result(double weight) {
    found.weight = weight;
    found.span = seconds(end - first);
    for (auto& [rank, by] : late_by) {
      found.last.push_back(
          {.rank = rank, .calls = by.size(), .late_by = median(by), .others_lost = weight * seconds(lost[rank])});
    }
    std::sort(found.last.begin(), found.last.end(),
              [](const LateRank& a, const LateRank& b) { return a.others_lost > b.others_lost; });
    for (const auto& [pair, time] : waited) found.waits.push_back({pair.first, pair.second, weight * seconds(time)});
    std::sort(found.waits.begin(), found.waits.end(),
              [](const PeerWait& a, const PeerWait& b) { return a.seconds > b.seconds; });
    return std::move(found);
  }
};

double cost(const Lateness& of) {
  double all = 0;
  for (const LateRank& rank : of.last) all += rank.others_lost;
  return all;
}

}  // namespace

std::vector<Lateness> lateness(const std::vector<ProcessCalls>& processes) {
  std::vector<Lateness> all;
  for (const auto& [name, calls] : by_communicator(processes)) {
    if (calls.ranks.size() < 2 || static_cast<int64_t>(calls.ranks.size()) != calls.size) continue;
    std::map<std::string, Sums> collectives;
    uint64_t first = 0, last = 0, compared = 0;  // numbers of calls
    for (const auto& [key, entries] : calls.collectives) {
      if (entries.size() != calls.ranks.size()) continue;  // some rank has left it out, or has not come yet
      if (!collectives[name_of(*entries.front().call)].take(entries)) continue;
      if (compared++ == 0) first = key.first;
      last = key.first;
    }
    const double weight = compared == 0 ? 1 : static_cast<double>(last - first + 1) / static_cast<double>(compared);
    for (auto& [collective, sums] : collectives) {
      if (sums.found.calls == 0) continue;
      Lateness& found = all.emplace_back(sums.result(weight));
      found.communicator = name;
      found.title = calls.title;
      found.name = collective;
      found.ranks = calls.ranks.size();
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Lateness& a, const Lateness& b) { return cost(a) > cost(b); });
  return all;
}

namespace {

/// Nanoseconds. A wait is traced when it ends: of the last call, which has not ended, nothing has been since then.
int64_t wait_that_lasts(const TracedCall& call, int64_t now) {
  constexpr int64_t kLong = 100'000'000;  // a call that computes, or moves much, is done by then
  if (call.enqueued || call.left != 0) return 0;
  int64_t since = call.entered;
  for (const TracedWait& wait : call.waits) since = std::max(since, wait.ended);
  return now - since >= kLong ? now - since : 0;
}

}  // namespace

std::vector<RankShares> shares(const std::vector<ProcessCalls>& processes) {
  std::vector<RankShares> all;
  for (const ProcessCalls& process : processes) {
    for (const RankCalls& rank : process.ranks) {
      if (rank.calls.empty()) continue;
      RankShares found{.communicator = rank.communicator,
                       .title = rank.title,
                       .host = process.host,
                       .rank = rank.rank,
                       .process = process.process,
                       .calls = rank.calls.size()};
      int64_t end = 0, covered = 0;  // transfers of a group have the same time
      Numbers collectives, on_windows;
      for (const TracedCall& call : rank.calls) {
        const int64_t left = call.left != 0 ? call.left : call.enqueued ? call.entered : process.now;
        found.in_calls += seconds(std::max<int64_t>(0, left - std::max(call.entered, covered)));
        covered = std::max(covered, left);
        end = std::max(end, left);
        if (call.kind == TracedCall::Kind::Collective) collectives.add(call.number);
        if (call.kind == TracedCall::Kind::OneSided) on_windows.add(call.number);
        for (const TracedWait& wait : call.waits) found.waiting += seconds(wait.ended - wait.began);
      }
      found.waiting += seconds(wait_that_lasts(rank.calls.back(), process.now));
      found.span = seconds(end - rank.calls.front().entered);
      found.sampled = collectives.are_sampled() || on_windows.are_sampled();
      all.push_back(std::move(found));
    }
  }
  return all;
}

}  // namespace tutti::tools
