#include "control/status/status.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/per_process.hpp"
#include "base/version.hpp"
#include "control/wait_table.hpp"

namespace tutti::control {
namespace {

uint32_t milliseconds_since(Deadline::Clock::time_point then) {
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - then).count();
  return static_cast<uint32_t>(std::clamp(seconds * 1e3, 0.0, 4e9));
}

/// The first kMaxHeard of them, the longest ago first.
std::vector<Heard> longest_ago(const std::map<Rank, Deadline::Clock::time_point>& heard) {
  std::vector<Heard> all;
  for (const auto& [rank, at] : heard) all.push_back({.rank = rank, .ms = milliseconds_since(at)});
  std::stable_sort(all.begin(), all.end(), [](const Heard& a, const Heard& b) { return a.ms > b.ms; });
  all.resize(std::min(all.size(), RankStatus::kMaxHeard));
  return all;
}

/// `all` as bytes, with as many of its ranks as `room` allows.
template <class All>
std::string packed(All all, size_t room) {
  decltype(all.ranks) ranks;
  ranks.swap(all.ranks);
  room -= std::min(room, pack_fields(all).size());
  uint32_t omitted = 0;
  for (auto& rank : ranks) {
    const size_t bytes = pack_fields(rank).size();
    if (bytes > room) {
      ++omitted;
      continue;
    }
    room -= bytes;
    all.ranks.push_back(std::move(rank));
  }
  if constexpr (requires { all.omitted; }) all.omitted = omitted;
  return pack_fields(all);
}

}  // namespace

StatusBook& StatusBook::of_this_process() { return tutti::of_this_process<StatusBook>(); }

void StatusBook::add(const void* who, Source source) {
  const std::lock_guard lock(mutex_);
  entries_[who] = {.number = ++added_, .source = std::move(source), .changed = Clock::now()};
}

void StatusBook::remove(const void* who) {
  const std::lock_guard lock(mutex_);
  entries_.erase(who);
}

ProcessStatus StatusBook::read() {
  std::map<uint64_t, RankStatus> ranks;  // by number
  const std::lock_guard lock(mutex_);
  for (auto& [who, entry] : entries_) {
    RankStatus& rank = ranks[entry.number] = entry.source.status();
    if (std::tie(rank.entered, rank.left, rank.transfers) != std::tie(entry.entered, entry.left, entry.transfers)) {
      entry.entered = rank.entered;
      entry.left = rank.left;
      entry.transfers = rank.transfers;
      entry.changed = Clock::now();
    }
    rank.still_ms = milliseconds_since(entry.changed);
  }
  ProcessStatus status{.version = version(), .ranks = {}, .slow = slow_};
  status.is_free = WaitTable::of_this_process().is_free() ? 1 : 0;
  std::set<std::string> told;  // by another rank of this process
  for (auto& [number, rank] : ranks) {
    const auto heard = heard_.find(rank.communicator);
    if (heard != heard_.end() && told.insert(rank.communicator).second) rank.heard = longest_ago(heard->second);
    status.ranks.push_back(std::move(rank));
  }
  return status;
}

template <class T>
std::vector<T> StatusBook::ask_all(std::function<T()> Source::*source) {
  std::map<uint64_t, T> ranks;  // by number
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [who, entry] : entries_) ranks[entry.number] = (entry.source.*source)();
  }
  std::vector<T> all;
  for (auto& [number, rank] : ranks) all.push_back(std::move(rank));
  return all;
}

std::string StatusBook::trace(const std::string& host) {
  trace::ProcessTrace process{.host = host, .process = static_cast<uint32_t>(getpid()), .ranks = {}};
  size_t bytes = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& [who, entry] : entries_) {
    if (bytes > trace::kMaxTrace) {
      ++process.omitted;
      continue;
    }
    process.ranks.push_back(trace::to_json(entry.source.trace()));
    bytes += process.ranks.back().size();
  }
  return trace::to_json(process);
}

ProcessMetrics StatusBook::metrics() {
  ProcessMetrics all{
      .process = static_cast<uint32_t>(getpid()), .version = version(), .ranks = ask_all(&Source::metrics)};
  const std::lock_guard lock(mutex_);
  if (mapped_) all.mapped = mapped_();
  return all;
}

bool StatusBook::has_moved(const std::string& communicator) {
  const std::lock_guard lock(mutex_);
  for (auto& [who, entry] : entries_) {
    if (entry.source.rank != 0 || entry.source.communicator != communicator) continue;
    const uint64_t calls = entry.entered + entry.transfers;
    return std::exchange(entry.asked, calls) != calls;
  }
  return false;
}

std::string StatusBook::title_of(const std::string& communicator) {
  const std::lock_guard lock(mutex_);
  for (const auto& [who, entry] : entries_) {
    if (entry.source.communicator == communicator) return entry.source.title;
  }
  return "";
}

ProcessTiming StatusBook::timing(const std::string& communicator) {
  ProcessTiming all;
  const std::lock_guard lock(mutex_);
  for (const auto& [who, entry] : entries_) {
    if (entry.source.communicator == communicator) all.ranks.push_back(entry.source.timing());
  }
  return all;
}

void StatusBook::set_heard(HeardAt heard) {
  const std::lock_guard lock(mutex_);
  heard_ = std::move(heard);
}

void StatusBook::set_mapped(std::function<uint64_t()> mapped) {
  const std::lock_guard lock(mutex_);
  mapped_ = std::move(mapped);
}

void StatusBook::set_slow(std::vector<std::string> slow) {
  const std::lock_guard lock(mutex_);
  slow_ = std::move(slow);
}

std::string StatusBook::answer(size_t room) {
  ProcessStatus all = read();
  if (pack_fields(all).size() > room) {
    for (RankStatus& rank : all.ranks) rank.heard.clear();
  }
  return packed(std::move(all), room);
}

std::string StatusBook::timing_answer(const std::string& communicator, size_t room) {
  ProcessTiming all = timing(communicator);
  if (pack_fields(all).size() > room) {
    for (RankTiming& rank : all.ranks) rank.links.clear();
  }
  return packed(std::move(all), room);
}

}  // namespace tutti::control
