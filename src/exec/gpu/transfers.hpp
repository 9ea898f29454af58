// Programs of sends, receives and vector calls for GPUs. What such calls move differs from call to call, and a program
// is too long to be written to the GPU for each of them. So programs are made by *shape*: which transfers there are,
// from and to whom, in which order; and each call tells its program, in TransferParts, where their bytes are and how
// many.
//
// In a program by shape each transfer has two instructions in each replica: messages of the greatest length, and a
// rest. When a call begins, the kernel writes its lengths and addresses to them, and leaves out those that have nothing
// to do (exec/cuda/transfers.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hd.hpp"
#include "exec/compile/direct.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::gpu {

/// Equal for calls that the same program serves.
std::string shape_of(const Direct& direct);
/// A call of the same shape in which every transfer has messages of the greatest length and a rest.
Direct example_of(const Direct& direct);
/// Of every transfer, in the order of the program's instructions; of a fold, which comes last, its own contribution and
/// then its result.
std::vector<TransferPart> parts_of(const Direct& direct);
/// How many replicas take part in the call.
uint32_t width_of(const Direct& direct, uint32_t most);

/// A transfer's share for one of `width` replicas: `count` messages from number `first` on, then perhaps the rest.
struct TransferShare {
  uint64_t first = 0, count = 0;
  bool has_rest = false;
};

/// The same at both ends, which know `bytes` and `message`. No bytes are one empty message.
TUTTI_HD inline uint32_t transfer_width(uint64_t bytes, uint64_t message, uint32_t most) {
  const uint64_t whole = bytes / message;
  return whole < most ? (whole == 0 ? 1 : static_cast<uint32_t>(whole)) : most;
}
TUTTI_HD inline TransferShare share_of(uint64_t bytes, uint64_t message, uint32_t replica, uint32_t most) {
  const uint32_t width = transfer_width(bytes, message, most);
  if (replica >= width) return {};
  const uint64_t whole = bytes / message;
  const bool rests = whole * message != bytes || bytes == 0;
  // The first replicas have one message more where they cannot be divided.
  const uint64_t each = whole / width, more = whole - each * width;
  const uint64_t first = replica * each + (replica < more ? replica : more);
  return {first, each + (replica < more ? 1 : 0), rests && replica == width - 1};
}

}  // namespace tutti::exec::gpu
