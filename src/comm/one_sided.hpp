// A call on a window, which one rank makes alone, and its text in messages.
#pragma once

#include <cstdint>
#include <string>

#include "base/rank.hpp"
#include "comm/call.hpp"
#include "exec/window.hpp"
#include "rma/part.hpp"

namespace tutti::comm {

struct OneSided {
  using What = OneSidedCall;
  static constexpr Rank kAllPeers = -1;
  static constexpr uint64_t kMaxSignals = uint64_t{1} << 62;

  What what = What::Flush;
  Rank peer = 0;                       ///< Flush: or kAllPeers
  uint32_t signal = 0;                 ///< its number
  const void* source = nullptr;        ///< of a put
  void* into = nullptr;                ///< of a get; the word before Add and CompareSwap, or null
  uint64_t bytes = 0, offset = 0;      ///< in the peer's part
  uint64_t count = 0;                  ///< signals to wait for
  uint64_t operand = 0, expected = 0;  ///< of Add and CompareSwap
  void* stream = nullptr;              ///< of the backend, if the window lies in memory of one

  /// Communicator::check() finds the mistakes of one that is not.
  bool is_valid(Rank ranks) const {
    if (static_cast<uint32_t>(peer) >= static_cast<uint32_t>(ranks) && !(what == What::Flush && peer == kAllPeers)) {
      return false;
    }
    switch (what) {
      case What::Put:
      case What::PutSignal:
        return (source != nullptr || bytes == 0) && signal < rma::kSignals;
      case What::Get:
        return into != nullptr || bytes == 0;
      case What::Add:
      case What::CompareSwap:
        return offset % sizeof(uint64_t) == 0;
      case What::WaitSignal:
        return signal < rma::kSignals && count - 1 < kMaxSignals;
      default:
        return signal < rma::kSignals;
    }
  }

  /// It runs last in a group. (Acquire follows a barrier: what other ranks have put before it is seen after it.)
  bool waits() const { return what == What::WaitSignal || what == What::Acquire; }
};

/// As the call board, the trace and the totals have it.
inline CallSpec spec_of(const OneSided& call) {
  CallSpec spec;
  spec.collective = Collective::SendRecv;  // no collective
  spec.one_sided = true;
  spec.op = static_cast<Op>(call.what);
  spec.type = static_cast<DType>(call.signal);
  spec.root = call.peer;
  spec.count = call.what == OneSidedCall::WaitSignal ? call.count : call.bytes;
  return spec;
}
static_assert(rma::kSignals == exec::kWindowSignals && OneSided::kAllPeers == exec::WindowCall::kAllPeers);
static_assert(rma::kSignals <= kDTypes && kOneSidedCalls <= kOps, "they have room in a CallSpec");

/// "put(4096 bytes, to rank 1 at offset 0)".
std::string describe(const OneSided& call);

}  // namespace tutti::comm
