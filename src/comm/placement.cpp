#include "comm/placement.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.hpp"

namespace tutti::comm {
namespace {

/// By number: used by a rank of this process.
std::array<std::atomic<bool>, 256>& used() {
  static std::array<std::atomic<bool>, 256> all{};
  return all;
}

const char* name_of(uint8_t backend) {
  return backend == kHostBackend ? "the host" : exec::backends()[backend - 1U]->name;
}

}  // namespace

std::vector<int> current_processors() {
  std::vector<int> all;
  for (const exec::BackendEntry* entry : exec::backends()) all.push_back(entry->current());
  return all;
}

void note_use_of(const exec::BackendEntry& entry) {
  const auto& all = exec::backends();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == &entry) used()[i + 1] = true;
  }
  detail::others_used_by.store(process_generation(), std::memory_order_relaxed);
}

uint8_t backend_of(const void* data) {
  const auto& all = exec::backends();
  uint8_t owner = kHostBackend;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!used()[i + 1] || !all[i]->owns(data)) continue;
    if (owner != kHostBackend) {
      throw_error(Code::InvalidUsage,
                  "two backends, {} and {}, own the memory at {}: load one of the two modules (TUTTI_MODULES)",
                  name_of(owner), all[i]->name, data);
    }
    owner = static_cast<uint8_t>(i + 1);
  }
  return owner;
}

namespace {

/// Of what a call without buffers has: its scalar.
uint8_t backend_of_scalar(const Call& call) {
  if (!call.scale_by_address) return kHostBackend;
  const void* scalar = nullptr;
  std::memcpy(&scalar, call.scale, sizeof scalar);
  return backend_of(scalar);
}

}  // namespace

uint8_t backend_of(const Call& call, bool other_stream) {
  const bool any = call.in != nullptr || call.out != nullptr;
  const uint8_t in = any ? backend_of(call.in != nullptr ? call.in : call.out) : backend_of_scalar(call);
  const uint8_t out = any ? backend_of(call.out != nullptr ? call.out : call.in) : in;
  if (other_stream && (in == kHostBackend || out == kHostBackend)) {  // the stream's backend refuses the buffer
    if (in != out) return std::max(in, out);
    for (size_t i = 1; i <= exec::backends().size(); ++i) {
      if (used()[i]) return static_cast<uint8_t>(i);
    }
  }
  if (in == out) return in;
  throw_error(Code::InvalidArgument, "{}: the input lies in memory of {} and the output in memory of {}",
              describe(call.spec), name_of(in), name_of(out));
}

}  // namespace tutti::comm
