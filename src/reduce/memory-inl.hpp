// Per-target: loads and stores of byte registers at any alignment.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reduce/copy_small.hpp"
#include "reduce/prefetch.hpp"
#include "reduce/simd_targets.hpp"
#include "topo/constants.hpp"

#if defined(TUTTI_REDUCE_MEMORY_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_REDUCE_MEMORY_INL_HPP_
#undef TUTTI_REDUCE_MEMORY_INL_HPP_
#else
#define TUTTI_REDUCE_MEMORY_INL_HPP_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Masked loads that do not touch the bytes left out: AVX-512 has them for bytes. (It has masked stores too, but these
// prevent store forwarding: see reduce/copy_small.hpp.)
#undef TUTTI_MASKED_LOADS
#if HWY_TARGET == HWY_AVX3 && HWY_MAJOR >= 1
#define TUTTI_MASKED_LOADS 1
#else
#define TUTTI_MASKED_LOADS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<uint8_t>;
using Raw = hn::Vec<Bytes>;
constexpr size_t kRawBytes = HWY_MAX_BYTES;

HWY_INLINE Raw load(const std::byte* from) { return hn::LoadU(Bytes(), reinterpret_cast<const uint8_t*>(from)); }

/// Reads exactly `size` ≤ kRawBytes bytes; the rest of the register is undefined.
HWY_INLINE Raw load_some(const std::byte* from, size_t size) {
  if (size == kRawBytes) return load(from);
  if (size <= 8) return hn::BitCast(Bytes(), hn::Set(hn::ScalableTag<uint64_t>(), load_small(from, size)));
#if TUTTI_MASKED_LOADS
  return hn::MaskedLoad(hn::FirstN(Bytes(), size), Bytes(), reinterpret_cast<const uint8_t*>(from));
#else
  HWY_ALIGN uint8_t buffer[kRawBytes] = {};
  memcpy(buffer, from, size);
  return hn::Load(Bytes(), buffer);
#endif
}

/// The element at `from` in every lane.
template <class T>
HWY_INLINE Raw load_repeated(const void* from) {
  T element;
  memcpy(&element, from, sizeof element);
  return hn::BitCast(Bytes(), hn::Set(hn::ScalableTag<T>(), element));
}

/// One or two destinations.
class Output {
 public:
  /// `second` may be null, and so may `first` if `second` is not; `second` is the one that other cores read. Streams
  /// only where aligned stores fall between elements of `element_size` bytes.
  Output(std::byte* first, std::byte* second, bool stream, size_t element_size)
      : first_(first != nullptr ? first : second),
        second_(first != nullptr ? second : nullptr),
        shared_(second),
        stream_(stream && first != nullptr && reinterpret_cast<uintptr_t>(first) % element_size == 0) {}

  /// Bytes before the first full register may be stored, at most `size`.
  size_t head(size_t size) const {
    const size_t unaligned = stream_ ? (0 - reinterpret_cast<uintptr_t>(first_)) % kRawBytes : 0;
    return unaligned < size ? unaligned : size;
  }

  HWY_INLINE void put(size_t at, Raw value) const {
    if (stream_) {
      hn::Stream(value, Bytes(), reinterpret_cast<uint8_t*>(first_ + at));
    } else {
      hn::StoreU(value, Bytes(), reinterpret_cast<uint8_t*>(first_ + at));
    }
    if (second_ != nullptr) hn::StoreU(value, Bytes(), reinterpret_cast<uint8_t*>(second_ + at));
  }

  /// Stores the first `size` bytes only.
  HWY_INLINE void put_some(size_t at, size_t size, Raw value) const {
    store_some(first_ + at, size, value);
    if (second_ != nullptr) store_some(second_ + at, size, value);
  }

  /// Prefetches bytes [begin, end), which will be written soon. Other cores read the second destination; fetching its
  /// lines from them overlaps with the current writes.
  HWY_INLINE void announce(size_t begin, size_t end) const {
    if (shared_ == nullptr) return;
    for (size_t at = begin; at < end; at += 64) prefetch_for_writing(shared_ + at);
  }

  /// Orders streamed stores before all later stores.
  void finish() const {
    if (stream_) hwy::FlushStream();
  }

 private:
  static HWY_INLINE void store_some(std::byte* to, size_t size, Raw value) {
    HWY_ALIGN uint8_t buffer[kRawBytes];
    hn::Store(value, Bytes(), buffer);
    copy_small(to, buffer, size);
  }

  std::byte* const first_;
  std::byte* const second_;
  std::byte* const shared_;
  const bool stream_;
};

/// Makes `bytes` bytes of output with a maker that has
///   Raw some(size_t at, size_t size) const                         the bytes [at, at + size), size ≤ kRawBytes
///   template <size_t n> void block(size_t at, Output out) const    puts n registers from `at` on
///   static constexpr size_t kBlock, kPagedBlock                    the best n, within cache and for long buffers
///   uint32_t sources() const                                       buffers it reads
/// In long buffers it works on several pages at once, because the processor's prefetchers stop at the end of a page,
/// and more memory banks work in parallel. (glibc's memcpy uses four.)
template <class Maker>
HWY_INLINE void make(const Maker& maker, const Output& out, size_t bytes) {
  constexpr size_t kStep = Maker::kBlock * kRawBytes, kPagedStep = Maker::kPagedBlock * kRawBytes;
  constexpr size_t kPage = 4096, kAhead = MachineConstants::fetched_ahead;
  size_t at = out.head(bytes);
  if (at > 0) out.put_some(0, at, maker.some(0, at));
  if (bytes >= MachineConstants::paged_from && maker.sources() <= 8) {
    const size_t pages =
        maker.sources() <= 2 ? MachineConstants::pages_at_once : MachineConstants::pages_read / maker.sources();
    for (; bytes - at >= pages * kPage; at += pages * kPage) {
      for (size_t in_page = 0; in_page < kPage; in_page += kPagedStep) {
        for (size_t page = 0; page < pages; ++page) {
          maker.template block<Maker::kPagedBlock>(at + page * kPage + in_page, out);
        }
      }
    }
  }
  out.announce(at, std::min(bytes, at + kAhead));
  for (; bytes - at >= kStep; at += kStep) {
    if (at + kAhead < bytes) out.announce(at + kAhead, std::min(bytes, at + kAhead + kStep));
    maker.template block<Maker::kBlock>(at, out);
  }
  for (size_t size; at < bytes; at += size) {
    size = bytes - at < kRawBytes ? bytes - at : kRawBytes;
    out.put_some(at, size, maker.some(at, size));
  }
  out.finish();
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#endif
