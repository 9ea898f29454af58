#include "control/wait_table.hpp"

#include <algorithm>
#include <utility>

#include "base/per_process.hpp"
#include "control/parked_threads.hpp"

namespace tutti::control {
namespace {

constexpr double kCheckEvery = 0.2;  // seconds between two inspections of all threads
constexpr double kStale = 2;         // seconds after which a wait that nobody has looked at is over, for people
constexpr double kForgotten = 30;    // seconds after which a report is discarded
constexpr size_t kMaxLearned = 512;  // processes

double seconds_since(Deadline::Clock::time_point then) {
  return std::chrono::duration<double>(Deadline::Clock::now() - then).count();
}

uint32_t milliseconds(double seconds) {
  return static_cast<uint32_t>(std::clamp(seconds * 1e3 + 1, 0.0, 4e9));  // rounded up: this is an upper bound
}

void grow_older(ProcessWaits& waits, double seconds) {
  const auto older = [&](uint32_t& age_ms) { age_ms = milliseconds(age_ms / 1e3 + seconds); };
  older(waits.age_ms);
  for (Wait& wait : waits.waits) older(wait.age_ms);
}

size_t bytes_in_entry(const auto& item) {
  std::string bytes;
  FieldWriter(bytes).item(item);
  return bytes.size();
}

}  // namespace

WaitTable& WaitTable::of_this_process() { return tutti::of_this_process<WaitTable>(); }

void WaitTable::add_own_thread(pid_t thread) {
  const std::lock_guard lock(mutex_);
  own_threads_.push_back(thread);
}

void WaitTable::publish(const void* who, Entry entry) {
  const std::lock_guard lock(mutex_);
  own_[who] = {std::move(entry), Clock::now()};
}

void WaitTable::withdraw(const void* who) {
  const std::lock_guard lock(mutex_);
  own_.erase(who);
}

/// Under the lock. Inspects the threads of this process.
ProcessWaits WaitTable::own_waits(uint64_t process) {
  ProcessWaits result{.process = process, .waits = {}};
  std::vector<pid_t> accounted = own_threads_;
  for (const auto& [who, own] : own_) {
    Wait& wait = result.waits.emplace_back(own.entry.wait);
    wait.age_ms = milliseconds(seconds_since(own.looked));
    accounted.insert(accounted.end(), own.entry.threads.begin(), own.entry.threads.end());
  }
  if (result.waits.empty()) return result;
  if (seconds_since(checked_) > kCheckEvery) {
    checked_ = Clock::now();
    free_ = !all_parked_but(accounted);
  }
  result.free = free_ ? 1 : 0;
  result.age_ms = milliseconds(seconds_since(checked_));
  return result;
}

bool WaitTable::is_free() {
  const std::lock_guard lock(mutex_);
  return own_waits(0).free != 0;
}

/// Under the lock: this process first.
std::vector<ProcessWaits> WaitTable::all(uint64_t process) {
  std::vector<ProcessWaits> result{own_waits(process)};
  std::erase_if(learned_, [](const auto& entry) { return seconds_since(entry.second.heard) > kForgotten; });
  for (const auto& [id, learned] : learned_) {
    grow_older(result.emplace_back(learned.waits), seconds_since(learned.heard));
  }
  return result;
}

std::string WaitTable::answer(uint64_t process, uint64_t communicator, Rank rank, Rank asker,
                              const std::function<Entered()>& entered) {
  WaitsReply reply;
  const std::lock_guard lock(mutex_);
  for (const auto& [who, own] : own_) {
    const Wait& wait = own.entry.wait;
    if (wait.communicator != communicator || wait.rank != rank) continue;
    reply.ticket = wait.ticket;
    for (const LinkCounts& link : own.entry.links) {
      if (link.peer == asker && reply.links.size() < kMaxLinkLanes)
        reply.links.push_back({link.link_lane, link.sent, link.acknowledged});
    }
  }
  std::vector<ProcessWaits> known = all(process);
  reply.entered = entered();
  // What its own waits lead to, the nearest first, as far as the reply has room.
  size_t room = kMaxEntry - bytes_in_entry(reply);
  const auto take = [&](size_t which) {
    const size_t bytes = bytes_in_entry(known[which]);
    if (bytes > room) return;
    room -= bytes;
    reply.processes.push_back(std::move(known[which]));
    known.erase(known.begin() + static_cast<ptrdiff_t>(which));
  };
  take(0);
  for (size_t i = 0; i < reply.processes.size(); ++i) {
    std::vector<uint64_t> next;
    for (const Wait& wait : reply.processes[i].waits) {
      for (const Awaited& awaited : wait.on) next.push_back(awaited.process);
    }
    for (const uint64_t id : next) {
      const auto found = std::find_if(known.begin(), known.end(), [&](const auto& p) { return p.process == id; });
      if (found != known.end()) take(static_cast<size_t>(found - known.begin()));
    }
  }
  std::string bytes;
  FieldWriter(bytes).item(reply);
  return bytes;
}

std::optional<Wait> WaitTable::wait_of(uint64_t communicator, Rank rank) {
  const std::lock_guard lock(mutex_);
  std::optional<Wait> longest;
  for (const auto& [who, own] : own_) {
    const Wait& wait = own.entry.wait;
    // Of a call that has moved on, nobody looks at the wait any more; else a look is at most a second old.
    if (wait.communicator != communicator || wait.rank != rank || seconds_since(own.looked) > kStale) continue;
    if (longest && longest->stuck_ms >= wait.stuck_ms) continue;
    longest = wait;
    longest->age_ms = milliseconds(seconds_since(own.looked));
  }
  return longest;
}

WaitsReply WaitTable::learn(uint64_t process, const std::string& bytes, double seconds) {
  WaitsReply reply;
  FieldReader reader(bytes);
  reader.item(reply);
  reader.end();
  const std::lock_guard lock(mutex_);
  for (ProcessWaits& reported : reply.processes) {
    if (reported.process == process) continue;  // this process knows its own waits best
    grow_older(reported, seconds);
    const auto known = learned_.find(reported.process);
    if (known == learned_.end() && learned_.size() >= kMaxLearned) continue;
    if (known != learned_.end()) {
      const double age = known->second.waits.age_ms / 1e3 + seconds_since(known->second.heard);
      if (milliseconds(age) < reported.age_ms) continue;
    }
    learned_[reported.process] = {reported, Clock::now()};
  }
  return reply;
}

WaitGraph WaitTable::graph(uint64_t process) {
  const std::lock_guard lock(mutex_);
  return WaitGraph(all(process));
}

void WaitTable::fail(Code code, const std::string& text, const Tickets& tickets) {
  std::vector<Fail> failing;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [who, own] : own_) {
      if (std::binary_search(tickets.begin(), tickets.end(), own.entry.wait.ticket)) failing.push_back(own.entry.fail);
    }
  }
  for (const Fail& fail : failing) fail(code, text, tickets);
}

}  // namespace tutti::control
