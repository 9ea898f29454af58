#include "rma/own_part.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/per_process.hpp"
#include "base/secret.hpp"
#include "link/mapped_memory.hpp"
#include "link/writable_memory.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {
namespace {

using link::SharedMemory;

void* allocate_signals(uint64_t bytes) {
  SharedMemory& shared = SharedMemory::of_this_process();
  try {
    return shared.allocate(bytes, SharedMemory::Kind::Mapped);
  } catch (const Error&) {  // peers send requests then
    return shared.allocate(bytes);
  }
}

/// None has arrived. In memory that peers can map, if there is some.
SignalLine* make_signals(Rank ranks) {
  auto* const lines = static_cast<SignalLine*>(allocate_signals(static_cast<uint64_t>(ranks) * sizeof(SignalLine)));
  std::for_each(lines, lines + ranks,
                [](SignalLine& line) { line.closed.store(Closed::No, std::memory_order_relaxed); });
  return lines;
}

/// Other ranks are to write there, and their stores, or this process's agent, would raise a signal.
void check_memory(const void* memory, uint64_t bytes) {
  if (!link::is_mapped(memory, bytes)) {
    throw_error(Code::InvalidArgument, "the {} bytes at {} are not in its process's memory", bytes, memory);
  }
  if (!link::is_writable(memory, bytes)) {
    throw_error(Code::InvalidArgument, "its process may not write to the {} bytes at {}; map them with PROT_WRITE",
                bytes, memory);
  }
}

constexpr double kGrace = 2;  // seconds for what uses a part to end: a copy, unless its process is stopped

/// Those of this process.
struct Parts {
  std::mutex mutex;
  std::map<PartName, std::weak_ptr<OwnPart>> all;

  static Parts& of_this_process() { return tutti::of_this_process<Parts>(); }
};

}  // namespace

std::shared_ptr<OwnPart> OwnPart::make(PartName name, void* memory, uint64_t bytes, std::vector<int> processes) {
  check_memory(memory, bytes);
  std::shared_ptr<OwnPart> part(new OwnPart(name, memory, bytes, std::move(processes)));
  Parts& parts = Parts::of_this_process();
  const std::lock_guard lock(parts.mutex);
  parts.all[std::move(name)] = part;
  return part;
}

std::shared_ptr<OwnPart> OwnPart::find(const PartName& name) {
  Parts& parts = Parts::of_this_process();
  const std::lock_guard lock(parts.mutex);
  const auto found = parts.all.find(name);
  return found == parts.all.end() ? nullptr : found->second.lock();
}

std::optional<PartName> OwnPart::within(const void* memory, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  Parts& parts = Parts::of_this_process();
  std::vector<std::shared_ptr<OwnPart>> held;  // the last holder's end takes the lock
  const std::lock_guard lock(parts.mutex);
  for (const auto& [name, weak] : parts.all) {
    const std::shared_ptr<OwnPart>& part = held.emplace_back(weak.lock());
    if (part == nullptr || part->is_closed()) continue;
    const uint64_t from = part->part_.memory;
    if (from < begin + bytes && begin < from + part->part_.bytes) return name;
  }
  return std::nullopt;
}

OwnPart::OwnPart(PartName name, void* memory, uint64_t bytes, std::vector<int> processes)
    : name_(std::move(name)),
      memory_(static_cast<std::byte*>(memory)),
      processes_(std::move(processes)),
      signals_(make_signals(ranks())),
      token_(random_u64()) {
  const SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion signals = shared.find(signals_, static_cast<uint64_t>(ranks()) * sizeof(SignalLine));
  part_ = {.bytes = bytes, .memory = reinterpret_cast<uint64_t>(memory), .signal_region = signals.id};
  if (bytes == 0) return;  // there is nothing else to reach
  const link::SharedRegion region = shared.find(memory, bytes);
  if (region.id != 0) {
    part_.region = region.id;
    part_.offset = static_cast<uint64_t>(memory_ - reinterpret_cast<const std::byte*>(region.base));
  } else {
    part_.gate = gate_.emplace().address();
    part_.token_at = reinterpret_cast<uint64_t>(&token_);
    part_.token = token_;
  }
}

OwnPart::~OwnPart() {
  {
    Parts& parts = Parts::of_this_process();
    const std::lock_guard lock(parts.mutex);
    parts.all.erase(name_);
  }
  SharedMemory::of_this_process().release(signals_);
}

Target::Exposed OwnPart::exposed() const {
  return {.memory = memory_,
          .bytes = part_.bytes,
          .signals = signals_,
          .signal_bytes = static_cast<uint64_t>(ranks()) * sizeof(SignalLine),
          .region = part_.region,
          .signal_region = part_.signal_region};
}

/// A use that has passed the shut gate goes on in the kernel. (Nobody is busy for long in other ways, but stopped.) A
/// process that has ended in the middle of a use stays marked as busy, and writes no more.
bool OwnPart::is_used_by(Rank rank) const {
  if (signals_[rank].busy.load(std::memory_order_seq_cst) == 0) return false;
  const int process = processes_[static_cast<size_t>(rank)];
  if (process == getpid()) return true;  // a thread, by loads and stores
  return gate_ ? link::may_be_in_kernel(process) : process == 0 || !link::is_gone(process);
}

std::vector<Rank> OwnPart::users() const {
  std::vector<Rank> users;
  for (Rank rank = 0; rank < ranks(); ++rank) {
    if (is_used_by(rank)) users.push_back(rank);
  }
  return users;
}

/// A rank that is a thread here writes to the pages that this process has, whatever others map.
bool OwnPart::is_used_here() const {
  return std::any_of(users_.begin(), users_.end(),
                     [&](Rank rank) { return processes_[static_cast<size_t>(rank)] == getpid(); });
}

std::string OwnPart::still_written() const {
  const bool one = users_.size() == 1;
  const std::string which = head_ + tail_ < part_.bytes
                                ? fmt::format("the first {} and the last {} of the {} bytes", head_, tail_, part_.bytes)
                                : fmt::format("all {} bytes", part_.bytes);
  if (is_used_here()) {
    return fmt::format(
        "{} {}, of this process, may still write to {} at {}: a call is under way there. Do not use these "
        "bytes before it has ended",
        one ? "rank" : "ranks", fmt::join(users_, ", "), which, static_cast<const void*>(memory_));
  }
  const char* const why = gate_ ? "the system copies there for" : "a copy there was under way in";
  const char* const kept = gate_ ? ""
                                 : " that was stopped, and these bytes share pages with other data or with another "
                                   "window, or the system refuses new pages";
  return fmt::format("{} {} may still write to {} at {}: {} {}{}. Do not use these bytes before {} ended",
                     one ? "rank" : "ranks", fmt::join(users_, ", "), which, static_cast<const void*>(memory_), why,
                     one ? "a process" : "processes", kept, one ? "that process has" : "those processes have");
}

bool OwnPart::close(Closed why) {
  for (SignalLine* line = signals_; line != signals_ + ranks(); ++line) {
    line->closed.store(why, std::memory_order_seq_cst);
  }
  if (gate_) gate_->shut();
  const Deadline grace = Deadline::in(kGrace);
  while (!(users_ = users()).empty() && !grace.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (users_.empty()) return true;
  head_ = part_.bytes, tail_ = 0;
  return !is_used_here() && cut_off();
}

/// Of a part that a stopped process may still write to.
bool OwnPart::cut_off() try {
  SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion region = shared.find(memory_, part_.bytes);
  if (region.id == 0 || region.pages >= region.pages_end) return false;
  const auto bytes = static_cast<size_t>(region.pages_end - region.pages);
  if (within(region.pages, bytes)) return false;  // new pages would be lost for peers that have another part mapped
  const std::vector<unsigned char> kept(region.pages, region.pages_end);
  if (!shared.renew(region.pages, region.pages_end)) return false;
  std::memcpy(const_cast<unsigned char*>(region.pages), kept.data(), bytes);
  const auto* const begin = reinterpret_cast<const unsigned char*>(memory_);
  const auto* const end = begin + part_.bytes;
  head_ = static_cast<uint64_t>(region.pages - begin);
  tail_ = end > region.pages_end ? static_cast<uint64_t>(end - region.pages_end) : 0;
  return head_ + tail_ == 0;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace tutti::rma
