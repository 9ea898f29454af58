// What a rank asks of another host's rank about its part of a window in memory of a GPU, over a stream between the two.
// Requests are carried out in their order. The bytes of a put follow its request.
#pragma once

#include <cstdint>

#include "exec/window.hpp"

namespace tutti::exec::gpu {

inline constexpr uint64_t kFarSlotBytes = 256 << 10;  ///< that a request, or an answer, brings at most
inline constexpr const char* kFarLabel = "gpu-window";

struct FarRequest {
  static constexpr uint32_t kMagic = 0x316e6177;  // "wan1"

  uint32_t magic = kMagic;
  WindowCall::What what = WindowCall::What::Flush;  ///< not PutSignal, which is two, nor WaitSignal
  uint8_t reserved[3] = {};
  uint64_t window = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t operand = 0;   ///< what is added, or swapped in; the number of a signal
  uint64_t expected = 0;  ///< of CompareSwap
  bool is_answered() const { return what != WindowCall::What::Put && what != WindowCall::What::Signal; }
};

/// The answer to all but Put and Signal. What a get has read follows it, or what an atomic step has found.
struct FarAnswer {
  enum class Outcome : uint32_t { Done, NoWindow, OutOfRange };
  uint32_t magic = FarRequest::kMagic;
  Outcome outcome = Outcome::Done;  ///< of a flush: that of the first put or signal since the last one that failed
  uint64_t bytes = 0;               ///< that follow
};

}  // namespace tutti::exec::gpu
