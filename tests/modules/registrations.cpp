#include "modules/registrations.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/log.hpp"

namespace tutti::transports::push {

Registration Registrations::acquire(const void* data, uint64_t bytes, MemoryUse use) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const auto covers = [&](const Entry& entry) {
    return entry.begin <= begin && begin - entry.begin <= entry.bytes && bytes <= entry.bytes - (begin - entry.begin) &&
           (use == MemoryUse::Read || entry.use == MemoryUse::ReadWrite);
  };
  const auto known = std::find_if(entries_.begin(), entries_.end(), covers);
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front().handle;
  }
  if (entries_.size() == kEntries) {
    const auto idle = std::find_if(entries_.rbegin(), entries_.rend(), [](const Entry& e) { return !e.in_use(); });
    if (idle == entries_.rend()) {
      throw_error(Code::OutOfMemory,
                  "push cannot register {} bytes: all {} registrations of its device are in use; use fewer buffers at "
                  "the same time",
                  bytes, kEntries);
    }
    entries_.erase(std::next(idle).base());
  }
  entries_.push_front({begin, bytes, use});
  log_debug("push: registered {} bytes", bytes);
  return entries_.front().handle;
}

}  // namespace tutti::transports::push
