#include "control/wait_graph.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/hash.hpp"

namespace tutti::control {
namespace {

constexpr uint32_t kMargin = 1000;  // milliseconds by which a wait must be older than the oldest answer
constexpr int kMaxHops = 16;        // in one text

const Wait* wait_of(const ProcessWaits& process, uint64_t communicator, Rank rank) {
  const auto found = std::find_if(process.waits.begin(), process.waits.end(),
                                  [&](const Wait& w) { return w.communicator == communicator && w.rank == rank; });
  return found == process.waits.end() ? nullptr : &*found;
}

/// A wait, in the process of a rank that has not entered the call, that may be that rank's. Waits in the same
/// communicator belong to other ranks, which are threads of that process too.
const Wait* elsewhere(const ProcessWaits& process, uint64_t communicator) {
  const auto found = std::find_if(process.waits.begin(), process.waits.end(),
                                  [&](const Wait& w) { return w.communicator != communicator; });
  return found == process.waits.end() ? nullptr : &*found;
}

void add(const Wait& wait, std::vector<const Wait*>& all) {
  if (std::find(all.begin(), all.end(), &wait) == all.end()) all.push_back(&wait);
}

}  // namespace

uint64_t process_key(const transports::ProcessId& place) {
  Hash hash;
  return hash.add(std::string_view(place.host)).add(place.process).add(place.started).add(place.nonce).value() | 1;
}

uint64_t ProcessWaits::state() const {
  std::vector<uint64_t> tickets;
  for (const Wait& wait : waits) tickets.push_back(wait.ticket);
  std::sort(tickets.begin(), tickets.end());
  Hash hash;
  for (const uint64_t ticket : tickets) hash.add(ticket);
  return hash.value() | 1;
}

const ProcessWaits* WaitGraph::process(uint64_t id) const {
  const auto found =
      std::find_if(processes_.begin(), processes_.end(), [&](const ProcessWaits& p) { return p.process == id; });
  return found == processes_.end() ? nullptr : &*found;
}

const Wait* WaitGraph::find(uint64_t ticket) const {
  for (const ProcessWaits& p : processes_) {
    for (const Wait& wait : p.waits) {
      if (wait.ticket == ticket) return &wait;
    }
  }
  return nullptr;
}

/// Adds the waits on which an awaited rank depends. False if the rank may progress, or if too little is known.
bool WaitGraph::add_awaited(const Wait& wait, const Awaited& awaited, std::vector<const Wait*>& all,
                            uint32_t& age_ms) const {
  const ProcessWaits* const its = process(awaited.process);
  if (its == nullptr || awaited.settled == 0) return false;
  bool is_known = false, is_settled = false, in_call = false;
  for (const Wait& same : its->waits) {  // of its device, and of a thread
    if (same.communicator != wait.communicator || same.rank != awaited.rank) continue;
    add(same, all);
    is_known = true;
    is_settled = is_settled || same.ticket == awaited.settled;
    in_call = in_call || same.on_device == 0;
  }
  if (is_known) {
    if (in_call || wait.on_device != 0) return is_settled;
    age_ms = std::max(age_ms, its->age_ms);
    return is_settled && its->free == 0;
  }
  if (its->free != 0 || its->waits.empty() || its->state() != awaited.settled) return false;
  age_ms = std::max(age_ms, its->age_ms);
  for (const Wait& other : its->waits) add(other, all);  // any of its threads might make the call
  return true;
}

Stuck WaitGraph::stuck(uint64_t ticket) const {
  Stuck result;
  std::vector<const Wait*> all;
  if (const Wait* const first = find(ticket)) all.push_back(first);
  for (size_t i = 0; i < all.size(); ++i) {
    const Wait& wait = *all[i];
    result.age_ms = std::max(result.age_ms, wait.age_ms);
    if (wait.on.empty()) return {};
    for (const Awaited& awaited : wait.on) {
      if (!add_awaited(wait, awaited, all, result.age_ms)) return {};
    }
  }
  for (const Wait* wait : all) {
    if (wait->stuck_ms < static_cast<uint64_t>(result.age_ms) + kMargin) return {};
    result.tickets.push_back(wait->ticket);
  }
  std::sort(result.tickets.begin(), result.tickets.end());
  return result;
}

std::string WaitGraph::follow(uint64_t ticket) const {
  const Wait* const wait = find(ticket);
  if (wait == nullptr) return "";
  return fmt::format("rank {} of {} waits in {}", wait->rank, wait->title, wait->call) + follow_from(*wait, 0);
}

std::string WaitGraph::follow_awaited(uint64_t ticket) const {
  const Wait* const wait = find(ticket);
  if (wait == nullptr || wait->on.empty()) return "";
  const auto [next, same] = next_of(*wait);
  if (next == nullptr) return "";
  return same ? fmt::format("it waits in {}", next->call) + follow_from(*next, 1)
              : fmt::format("it waits, as rank {} of {}, in {}", next->rank, next->title, next->call) +
                    follow_from(*next, 1);
}

/// The wait of the rank that `wait` awaits first, and whether it is in the same communicator; null if none is known.
std::pair<const Wait*, bool> WaitGraph::next_of(const Wait& wait) const {
  const Awaited& awaited = wait.on.front();
  const ProcessWaits* const its = process(awaited.process);
  if (its == nullptr) return {nullptr, false};
  if (const Wait* const there = wait_of(*its, wait.communicator, awaited.rank)) return {there, true};
  return {elsewhere(*its, wait.communicator), false};
}

/// ", for rank 1, which waits in …": on what `first` and those after it wait.
std::string WaitGraph::follow_from(const Wait& first, int hops) const {
  std::string text;
  std::vector<const Wait*> seen;
  for (const Wait* wait = &first; hops < kMaxHops && !wait->on.empty(); ++hops) {
    seen.push_back(wait);
    text += fmt::format(", for rank {}", wait->on.front().rank);
    const ProcessWaits* const its = process(wait->on.front().process);
    if (its == nullptr) return text + ", of which nothing is known";
    const auto [next, same] = next_of(*wait);
    if (next == nullptr) return text + ", which is in no call that waits for others (does it compute?)";
    const bool again = std::find(seen.begin(), seen.end(), next) != seen.end();
    text +=
        same ? ", which waits"
             : fmt::format(", which has not come to that call: it waits, as rank {} of {},", next->rank, next->title);
    if (again) return text + " as said";
    text += fmt::format(" in {}", next->call);
    if (!same && its->free != 0) text += " (another thread of its process may still come)";
    wait = next;
  }
  return text;
}

}  // namespace tutti::control
