#include "rma/own_part.hpp"

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
#include "base/per_process.hpp"
#include "link/mapped_memory.hpp"
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

constexpr double kGrace = 2;  // seconds for what uses a part to end: a copy, unless its process is stopped

/// Those of this process.
struct Parts {
  std::mutex mutex;
  std::map<PartName, std::weak_ptr<OwnPart>> all;

  static Parts& of_this_process() { return tutti::of_this_process<Parts>(); }
};

}  // namespace

std::shared_ptr<OwnPart> OwnPart::make(PartName name, void* memory, uint64_t bytes, Rank ranks) {
  const std::shared_ptr<OwnPart> part(new OwnPart(name, memory, bytes, ranks));
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

OwnPart::OwnPart(PartName name, void* memory, uint64_t bytes, Rank ranks)
    : name_(std::move(name)), memory_(static_cast<std::byte*>(memory)), ranks_(ranks), signals_(make_signals(ranks)) {
  part_ = {.bytes = bytes, .memory = reinterpret_cast<uint64_t>(memory)};
  const SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion signals = shared.find(signals_, static_cast<uint64_t>(ranks) * sizeof(SignalLine));
  if (bytes == 0) {  // there is nothing else to map
    part_.signal_region = signals.id;
    return;
  }
  const link::SharedRegion region = shared.find(memory, bytes);
  if (region.id == 0 || signals.id == 0) return;
  part_.region = region.id;
  part_.offset = static_cast<uint64_t>(memory_ - reinterpret_cast<const std::byte*>(region.base));
  part_.signal_region = signals.id;
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
          .region = part_.region,
          .signal_region = part_.signal_region};
}

bool OwnPart::is_busy() const {
  return std::any_of(signals_, signals_ + ranks_,
                     [](const SignalLine& line) { return line.busy.load(std::memory_order_seq_cst) != 0; });
}

bool OwnPart::close(Closed why) {
  for (SignalLine* line = signals_; line != signals_ + ranks_; ++line) {
    line->closed.store(why, std::memory_order_seq_cst);
  }
  const Deadline grace = Deadline::in(kGrace);
  while (is_busy() && !grace.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return !is_busy() || cut_off();
}

/// Of a part that a stopped process may still write to.
bool OwnPart::cut_off() try {
  SharedMemory& shared = SharedMemory::of_this_process();
  const link::SharedRegion region = shared.find(memory_, part_.bytes);
  if (region.id == 0) return false;
  const auto bytes = static_cast<size_t>(region.pages_end - region.pages);
  const std::vector<unsigned char> kept(region.pages, region.pages_end);
  if (!shared.renew(region.pages, region.pages_end)) return false;
  std::memcpy(const_cast<unsigned char*>(region.pages), kept.data(), bytes);
  return bytes >= part_.bytes;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace tutti::rma
