#include "control/status/slow_links.hpp"

#include <algorithm>

#include "base/median.hpp"

namespace tutti::control {
namespace {

/// How long the links of a host were busy, one way.
struct HostBusy {
  double sum = 0, longest = 0;
  void add(double busy) {
    sum += busy;
    longest = std::max(longest, busy);
  }
  /// How many were busy at the same time, if those that were did so as long as they could.
  double at_once() const { return sum / longest; }
};

}  // namespace

void SlowLinks::take(const std::vector<const RankTiming*>& ranks) {
  Now now = slices_of(ranks);
  share(now);
  compare(now);
  for (auto& [link, known] : links_) {
    const auto found = now.find(link);
    if (found == now.end() || found->second.others == 0) {
      if (++known.idle >= kSlices) known.slices.clear();
      continue;
    }
    known.idle = 0;
    known.slices.push_back(found->second);
    if (known.slices.size() > kSlices) known.slices.pop_front();
  }
}

/// Of the time since the last call, those that count.
SlowLinks::Now SlowLinks::slices_of(const std::vector<const RankTiming*>& ranks) {
  Now now;
  const auto size = static_cast<Rank>(std::min(ranks.size(), hosts_.size()));
  for (Rank from = 0; from < size; ++from) {
    const RankTiming& rank = *ranks[static_cast<size_t>(from)];
    for (const LinkTiming& link : rank.links) {
      if (link.peer < 0 || link.peer >= size || link.lane >= LinkTiming::kMaxLanes) continue;
      const Link name{from, link.peer, link.transport, link.lane};
      if (links_.size() >= kMaxLinks * ranks.size() && !links_.contains(name)) continue;
      Known& known = links_[name];
      const Slice slice{.span = static_cast<double>(rank.now - known.now) / 1e9,
                        .busy = static_cast<double>(link.busy - known.busy) / 1e9,
                        .sent = static_cast<double>(link.sent - known.sent)};
      const bool follows = known.now > 0 && rank.now > known.now && link.sent >= known.sent && link.busy >= known.busy;
      known.now = rank.now;
      known.sent = link.sent;
      known.busy = link.busy;
      if (follows && slice.sent >= kLeastSent && slice.busy >= kLeastBusy * slice.span) now[name] = slice;
    }
  }
  return now;
}

void SlowLinks::share(Now& now) const {
  std::map<std::string, HostBusy> out, in;
  const auto host = [&](Rank rank) -> const std::string& { return hosts_[static_cast<size_t>(rank)]; };
  for (const auto& [link, slice] : now) {
    out[host(std::get<0>(link))].add(slice.busy);
    in[host(std::get<1>(link))].add(slice.busy);
  }
  for (auto& [link, slice] : now) {
    const double at_once = std::max(out[host(std::get<0>(link))].at_once(), in[host(std::get<1>(link))].at_once());
    slice.alone = slice.rate() * at_once;
  }
}

void SlowLinks::compare(Now& now) {
  std::map<std::string, std::vector<double>> rates;  // by transport
  for (const auto& [link, slice] : now) rates[std::get<2>(link)].push_back(slice.rate());
  for (auto& [transport, all] : rates) {
    if (all.size() < 2) continue;
    const Medians medians(std::move(all));
    for (auto& [link, slice] : now) {
      if (std::get<2>(link) == transport) slice.others = medians.of_others(slice.rate());
    }
  }
}

std::vector<SlowLink> SlowLinks::found() const {
  std::vector<SlowLink> all;
  for (const auto& [link, known] : links_) {
    if (known.slices.size() < kSlices) continue;
    size_t hits = 0;
    Slice sum;
    for (const Slice& slice : known.slices) {
      hits += slice.alone <= kSlower * slice.others ? 1 : 0;
      sum.span += slice.span;
      sum.busy += slice.busy;
      sum.sent += slice.sent;
      sum.others += slice.others / static_cast<double>(kSlices);
    }
    if (hits < kHits) continue;
    all.push_back({.from = std::get<0>(link),
                   .to = std::get<1>(link),
                   .transport = std::get<2>(link),
                   .rate = sum.rate(),
                   .others = sum.others,
                   .busy = sum.busy / sum.span,
                   .seconds = sum.span});
  }
  return all;
}

}  // namespace tutti::control
