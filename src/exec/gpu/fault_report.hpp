// The report of a communicator's first fault, which a kernel writes into pinned memory and the host reads there.
//
// Each word brings the flag that it has been written, as lines between GPUs do (link/ll.hpp): so words may come in
// any order, the kernel needs no fence, and the host believes a report when all its words are there.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "exec/state.hpp"

namespace tutti::exec::gpu {

struct FaultReport {
  static constexpr uint32_t kValues = 8;
  uint64_t words[2 * kValues] = {};  ///< half a value << 32 | flag; 0: not written
};

inline constexpr uint64_t kReported = 1;  ///< the flag

/// To be called once for a report. `Memory`: as for link::LlWire.
template <class Memory>
TUTTI_HD void store_report(FaultReport& report, const Fault& fault) {
  const auto pair = [](auto high, auto low) {
    return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
  };
  const auto store = [&](uint32_t value, uint64_t bits) {
    Memory::store_relaxed(&report.words[2 * value], bits >> 32 << 32 | kReported);
    Memory::store_relaxed(&report.words[2 * value + 1], bits << 32 | kReported);
  };
  store(0, pair(fault.kind, fault.peer));
  store(1, pair(fault.lane, fault.step));
  store(2, fault.expected_bytes);
  store(3, fault.got.tag);
  store(4, fault.got.length);
  store(5, pair(fault.got.where, fault.error));
  store(6, fault.call);
  store(7, fault.other);
}

/// False if there is none yet, or not all of it.
template <class Memory>
bool load_report(const FaultReport& report, Fault& fault) {
  uint64_t values[FaultReport::kValues];
  for (uint32_t value = 0; value < FaultReport::kValues; ++value) {
    const uint64_t high = Memory::load(&report.words[2 * value]), low = Memory::load(&report.words[2 * value + 1]);
    if ((high & low & kReported) == 0) return false;
    values[value] = high >> 32 << 32 | low >> 32;
  }
  const auto high = [&](uint32_t value) { return static_cast<uint32_t>(values[value] >> 32); };
  const auto low = [&](uint32_t value) { return static_cast<uint32_t>(values[value]); };
  fault = {.kind = static_cast<FaultKind>(high(0)),
           .peer = static_cast<Rank>(low(0)),
           .lane = high(1),
           .step = low(1),
           .expected_bytes = values[2],
           .got = {values[3], values[4], static_cast<link::Where>(high(5))},
           .error = static_cast<int>(low(5)),
           .call = values[6],
           .other = values[7]};
  return true;
}

}  // namespace tutti::exec::gpu
