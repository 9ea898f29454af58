// Copies and fills: what a copy engine does, which reaches all memory.
#include <atomic>
#include <cstring>

#include "api.hpp"

namespace fake {
namespace {

/// One end of a copy.
struct End {
  uintptr_t at;
  bool on_device;  ///< as the entry point says; else it is the host's, or anybody's
};

/// Memory that a copy may touch. Null: ordinary host memory.
const Mapping* check_end(const End& end, size_t bytes) {
  const Mapping* const mapping = memory().find(end.at);
  if (mapping == nullptr) {
    require(!end.on_device && !memory().in_range(reinterpret_cast<void*>(end.at)), CUDA_ERROR_INVALID_VALUE);
    return nullptr;
  }
  // What was mapped piece by piece is one range.
  for (uintptr_t reached = mapping->base + mapping->asked; reached < end.at + bytes;) {
    const Mapping* const next = mapping->kind == Kind::Vmm ? memory().find(reached) : nullptr;
    require(next != nullptr && next->kind == Kind::Vmm, CUDA_ERROR_INVALID_VALUE);
    reached = next->base + next->asked;
  }
  return mapping;
}

// Memory may be gone when the work runs.
void open_end(uintptr_t at, size_t bytes) {
  if (!memory().in_range(reinterpret_cast<void*>(at))) return;
  require(memory().find(at) != nullptr, CUDA_ERROR_ILLEGAL_ADDRESS);
  memory().open(at, bytes);
}

// A copy engine stores aligned words as a whole: a kernel may look at one of a few meanwhile.
void store_words(uintptr_t to, const unsigned char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from + at, sizeof word);
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to + at)).store(word, std::memory_order_relaxed);
  }
}

// Takes two turns where it is long and its ends are apart: what is done meanwhile may meet half of it.
Maker copier(uintptr_t to, uintptr_t from, size_t bytes, const std::shared_ptr<std::vector<unsigned char>>& staged) {
  constexpr size_t kFew = 64, kLong = 4096;
  const bool apart = to + bytes <= from || from + bytes <= to;
  const size_t part = staged == nullptr && apart && bytes >= kLong ? bytes / 2 : bytes;
  return [=] {
    return [=, done = size_t{0}]() mutable {
      open_end(to, bytes);
      if (staged == nullptr) open_end(from, bytes);
      const Seen seen;
      const size_t now = done == 0 ? part : bytes - done;
      const auto* const source = staged != nullptr ? staged->data() : reinterpret_cast<const unsigned char*>(from);
      if (staged != nullptr && bytes <= kFew && to % sizeof(uint64_t) == 0 && bytes % sizeof(uint64_t) == 0) {
        store_words(to, source, bytes);
      } else {
        std::memmove(reinterpret_cast<unsigned char*>(to) + done, source + done, now);
      }
      done += now;
      return done == bytes;
    };
  };
}

void copy(Call& one, End to, End from, size_t bytes, CUstream handle, bool wait) {
  Stream& stream = stream_of(one, handle);
  if (bytes == 0) return;
  const Mapping* const target = check_end(to, bytes);
  const Mapping* const source = check_end(from, bytes);
  std::shared_ptr<std::vector<unsigned char>> staged;
  if (source == nullptr && stream.capture == nullptr) {
    // Pageable host memory is read before the call returns.
    const auto* const data = reinterpret_cast<const unsigned char*>(from.at);
    staged = std::make_shared<std::vector<unsigned char>>(data, data + bytes);
  }
  submit(one, stream, CU_GRAPH_NODE_TYPE_MEMCPY, copier(to.at, from.at, bytes, staged));
  // A copy into pageable host memory has ended when the call returns.
  if (stream.capture == nullptr && (wait || target == nullptr)) one.drain(stream);
}

template <class Value>
void fill(Call& one, uintptr_t at, Value value, size_t count, CUstream handle, bool wait) {
  Stream& stream = stream_of(one, handle);
  if (count == 0) return;
  require(check_end({at, true}, count * sizeof value) != nullptr, CUDA_ERROR_INVALID_VALUE);
  require(at % sizeof value == 0, CUDA_ERROR_INVALID_VALUE);
  submit(one, stream, CU_GRAPH_NODE_TYPE_MEMSET, [=] {
    return [=] {
      open_end(at, count * sizeof value);
      const Seen seen;
      std::fill_n(reinterpret_cast<Value*>(at), count, value);
      return true;
    };
  });
  if (wait) one.drain(stream);
}

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpy", kContext | kUnsafe, [&](Call& one) {
    copy(one, {to, false}, {from, false}, bytes, nullptr, true);
  });
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyAsync", kContext, [&](Call& one) {
    copy(one, {to, false}, {from, false}, bytes, stream, false);
  });
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return call("cuMemcpyHtoD", kContext | kUnsafe, [&](Call& one) {
    copy(one, {to, true}, {number(from), false}, bytes, nullptr, true);
  });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return call("cuMemcpyHtoDAsync", kContext, [&](Call& one) {
    copy(one, {to, true}, {number(from), false}, bytes, stream, false);
  });
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoH", kContext | kUnsafe, [&](Call& one) {
    copy(one, {number(to), false}, {from, true}, bytes, nullptr, true);
  });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync", kContext, [&](Call& one) {
    copy(one, {number(to), false}, {from, true}, bytes, stream, false);
  });
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return call("cuMemcpyDtoD", kContext | kUnsafe, [&](Call& one) {
    copy(one, {to, true}, {from, true}, bytes, nullptr, true);
  });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoDAsync", kContext, [&](Call& one) {
    copy(one, {to, true}, {from, true}, bytes, stream, false);
  });
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return call("cuMemcpyPeerAsync", kContext, [&](Call& one) {
    copy(one, {to, true}, {from, true}, bytes, stream, false);
  });
}

CUresult cuMemsetD8(CUdeviceptr at, unsigned char value, size_t count) {
  return call("cuMemsetD8", kContext | kUnsafe, [&](Call& one) { fill(one, at, value, count, nullptr, true); });
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, CUstream stream) {
  return call("cuMemsetD8Async", kContext, [&](Call& one) { fill(one, at, value, count, stream, false); });
}
CUresult cuMemsetD32(CUdeviceptr at, unsigned value, size_t count) {
  return call("cuMemsetD32", kContext | kUnsafe, [&](Call& one) { fill(one, at, value, count, nullptr, true); });
}
CUresult cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream) {
  return call("cuMemsetD32Async", kContext, [&](Call& one) { fill(one, at, value, count, stream, false); });
}
