// Where a block finds the operands of an instruction.
#pragma once

#include <cstdint>

#include "exec/cuda/device.hpp"
#include "exec/gpu/lanes.hpp"
#include "link/ll.hpp"

namespace tutti::exec::cuda {

/// An instruction's operands, where all threads find them. There is no address at which a message in lines could be
/// read: its operand is the address of its slot, marked by bits that no address has, and the flag of its lines.
struct BlockOperands {
  static constexpr uintptr_t kInLines = uintptr_t{1} << 63, kLl128 = uintptr_t{1} << 62;

  const unsigned char* at[gpu::kMaxOperands];
  uint32_t flags[gpu::kMaxOperands];

  TUTTI_DEVICE static const BlockOperands& of(const unsigned char* const* at) {
    return *reinterpret_cast<const BlockOperands*>(at);
  }
  TUTTI_DEVICE void set_lines(uint32_t j, const link::Arrival& arrival) {
    const bool by_ll128 = arrival.offset == static_cast<uint64_t>(link::Form::Ll128);
    const auto address = reinterpret_cast<uintptr_t>(arrival.data) | kInLines | (by_ll128 ? kLl128 : 0);
    at[j] = reinterpret_cast<const unsigned char*>(address);
    flags[j] = static_cast<uint32_t>(arrival.id);
  }

  TUTTI_DEVICE static bool in_lines(const unsigned char* operand) {
    return (reinterpret_cast<uintptr_t>(operand) & kInLines) != 0;
  }
  TUTTI_DEVICE static bool by_ll128(const unsigned char* operand) {
    return (reinterpret_cast<uintptr_t>(operand) & kLl128) != 0;
  }
  /// Its slot, as pairs of words.
  TUTTI_DEVICE static const ptx::Words* slot(const unsigned char* operand) {
    return reinterpret_cast<const ptx::Words*>(reinterpret_cast<uintptr_t>(operand) & ~(kInLines | kLl128));
  }
  /// For a load whose result nobody needs: under a condition, loads would be waited for one by one.
  TUTTI_DEVICE const ptx::Words* anything() const {
    constexpr uintptr_t kPair = sizeof(ptx::Words);
    return reinterpret_cast<const ptx::Words*>((reinterpret_cast<uintptr_t>(at) + kPair - 1) & ~(kPair - 1));
  }
};

}  // namespace tutti::exec::cuda
