// What the ranks of a window tell each other: where their parts lie, and what peers on other hosts ask of them.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::rma {

inline constexpr uint32_t kSignals = 8;  ///< that a rank can send each other rank in a window, counted apart

/// How many signals of one rank have arrived. It alone adds to them, so they need no atomic addition. A cache line.
struct alignas(64) SignalLine {
  std::atomic<uint64_t> arrived[kSignals];
};

/// A rank's part of a window.
struct Part {
  uint64_t bytes = 0;
  uint64_t memory = 0, signals = 0;  ///< addresses in its process; of signals: a SignalLine for each rank
  uint64_t region = 0, offset = 0;   ///< where the memory lies in SharedMemory; region 0: peers cannot map it
  uint64_t signal_region = 0;        ///< that of the signals, which begin there
  bool operator==(const Part&) const = default;
};

/// What a rank asks of another one's part over a stream. The bytes of a put follow it.
struct Request {
  static constexpr uint32_t kMagic = 0x31616d72;  // "rma1"
  enum class What : uint32_t { Put, Get, Signal, Add, CompareSwap, Flush };

  uint32_t magic = kMagic;
  What what = What::Flush;
  uint64_t window = 0;
  uint64_t offset = 0, bytes = 0;
  uint64_t operand = 0;   ///< what is added, or swapped in; the number of a signal
  uint64_t expected = 0;  ///< of CompareSwap
};

/// The answer to Get, whose bytes follow, Add, CompareSwap and Flush.
struct Reply {
  enum class Outcome : uint32_t { Done, NoWindow, OutOfRange };
  uint32_t magic = Request::kMagic;
  Outcome outcome = Outcome::Done;  ///< of this request, and of those since the last answer
  uint64_t value = 0;               ///< before Add and CompareSwap
};

}  // namespace tutti::rma
