#include "control/status/status.hpp"

#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/per_process.hpp"
#include "base/version.hpp"

namespace tutti::control {
namespace {

uint32_t milliseconds_since(Deadline::Clock::time_point then) {
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - then).count();
  return static_cast<uint32_t>(std::clamp(seconds * 1e3, 0.0, 4e9));
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
  ProcessStatus status{.version = version(), .ranks = {}};
  for (auto& [number, rank] : ranks) status.ranks.push_back(std::move(rank));
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
  return {.process = static_cast<uint32_t>(getpid()), .version = version(), .ranks = ask_all(&Source::metrics)};
}

std::string StatusBook::answer(size_t room) {
  ProcessStatus all = read();
  std::vector<RankStatus> ranks;
  ranks.swap(all.ranks);
  room -= std::min(room, pack_fields(all).size());
  for (RankStatus& rank : ranks) {
    const size_t bytes = pack_fields(rank).size();
    if (bytes > room) {
      ++all.omitted;
      continue;
    }
    room -= bytes;
    all.ranks.push_back(std::move(rank));
  }
  return pack_fields(all);
}

}  // namespace tutti::control
