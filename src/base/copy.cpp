// copy_bytes: glibc's memcpy where it is the best there is; own loops for two destinations and for streaming.
#include "base/fold_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "base/copy.cpp"
#include "base/simd_targets.hpp"
#include "hwy/foreach_target.h"
// foreach_target comes first
#include "base/memory-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

void copy_through_registers(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream) {
  constexpr size_t kBlock = 4;  // registers at a time
  const Output out(dst, dst2, stream, 1);
  size_t at = out.head(bytes);
  if (at > 0) out.put_some(0, at, load_some(src, at));
  for (; bytes - at >= kBlock * kRawBytes; at += kBlock * kRawBytes) {
    Raw block[kBlock];
    for (size_t b = 0; b < kBlock; ++b) block[b] = load(src + at + b * kRawBytes);
    for (size_t b = 0; b < kBlock; ++b) out.put(at + b * kRawBytes, block[b]);
  }
  for (; bytes - at >= kRawBytes; at += kRawBytes) out.put(at, load(src + at));
  if (at < bytes) out.put_some(at, bytes - at, load_some(src + at, bytes - at));
  out.finish();
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

HWY_EXPORT(copy_through_registers);

void copy_bytes(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, bool stream) {
  if (bytes == 0) return;
  if (dst2 == nullptr && !stream) {
    if (dst != src) memcpy(dst, src, bytes);
    return;
  }
  TUTTI_DISPATCH(copy_through_registers)(dst, dst2, src, bytes, stream);
}

}  // namespace tutti
#endif
