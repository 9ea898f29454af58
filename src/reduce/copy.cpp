// Copies to one or two destinations, optionally past the cache.
#include "reduce/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/copy.cpp"
#include "reduce/simd_targets.hpp"

#include "hwy/foreach_target.h"
// foreach_target comes first
#include "hwy/highway.h"
#include "reduce/memory-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

struct Copied {
  static constexpr size_t kBlock = 2, kPagedBlock = 2;
  const std::byte* src;

  static uint32_t sources() { return 1; }
  HWY_INLINE Raw some(size_t at, size_t size) const { return load_some(src + at, size); }

  template <size_t kRegisters>
  HWY_INLINE void block(size_t at, const Output& out) const {
    Raw value[kRegisters];
    for (size_t b = 0; b < kRegisters; ++b) value[b] = load(src + at + b * kRawBytes);
    for (size_t b = 0; b < kRegisters; ++b) out.put(at + b * kRawBytes, value[b]);
  }
};

void copy_registers(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream) {
  make(Copied{src}, Output(dst, dst2, stream, 1), bytes);
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(copy_registers);

void copy_through_registers(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream) {
  TUTTI_DISPATCH(copy_registers)(dst, dst2, src, bytes, stream);
}

}  // namespace tutti
#endif
