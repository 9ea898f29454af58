// The begin of a call of a program of transfers: the call's lengths and addresses are written to the program's
// instructions (exec/gpu/transfers.hpp).
#pragma once

#include "exec/cuda/device.hpp"
#include "exec/gpu/transfers.hpp"

namespace tutti::exec::cuda {

/// A lane of a replica. One thread; nobody runs the lane before a barrier.
class TransferLane {
 public:
  TUTTI_DEVICE TransferLane(const gpu::TransfersCall& call, const Tables& tables) : call_(call), tables_(tables) {}

  TUTTI_DEVICE void bind(uint32_t lane, uint32_t replica) {
    const uint32_t first = call_.firsts[lane], end = call_.firsts[lane + 1];
    TUTTI_HD_ROLLED
    for (uint32_t i = first; i < end; ++i) {
      const gpu::TransferPart& part = parts()[i];
      const gpu::TransferShare share = gpu::share_of(part, replica);
      const uint64_t whole = gpu::whole_messages(part);
      if (share.count != 0) add(i, share.first * call_.message, call_.message, share.count);
      if (whole != 0) ++step_;
      if (share.has_rest) add(i, whole * call_.message, part.rest, 1);
      if (gpu::rests(part)) ++step_;
    }
    const_cast<Range&>(*tables_.lanes) = {0, at_};
  }

 private:
  TUTTI_DEVICE const gpu::TransferPart* parts() const { return call_.parts != nullptr ? call_.parts : call_.near; }

  /// `done`: bytes of the transfer before its messages, which are `count` of so many bytes.
  TUTTI_DEVICE void add(uint32_t transfer, uint64_t done, uint64_t bytes, uint64_t count) {
    auto& op = const_cast<Instruction&>(tables_.ops[at_++]);
    auto& segment = const_cast<Segment&>(tables_.segments[op.segments.begin]);
    const gpu::TransferPart& part = parts()[transfer];
    op.bytes = segment.bytes = bytes;
    op.repeats = count;
    op.salt = part.tag;
    op.step = step_;
    op.segments.end = op.segments.begin + (bytes != 0 ? 1 : 0);
    const bool folds = op.sources > 1;  // its own contribution is an operand, and the result is a part of its own
    if (op.message.base != Base::None) op.message.offset = part.at + done;
    if (segment.to.base != Base::None) segment.to.offset = (folds ? parts()[transfer + 1].at : part.at) + done;
    TUTTI_HD_ROLLED
    for (uint32_t k = 0; k < op.sources; ++k) {
      auto& source = const_cast<Ref&>(tables_.sources[segment.sources + k]);
      if (source.base != Base::Message) source.offset = part.at + done;
    }
  }

  const gpu::TransfersCall& call_;
  const Tables& tables_;
  uint32_t at_ = 0, step_ = 0;
};

}  // namespace tutti::exec::cuda
