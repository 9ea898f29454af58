// The fold of two operands alone, as the interpreter's blocks fold: what it reaches of a GPU's memory
// (tools/gpu_check).
#include "exec/cuda/block.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/fold.hpp"

namespace tutti::exec::cuda {

/// to[0, bytes) = left + right, element by element; all on one device.
struct FoldCall {
  unsigned char* to = nullptr;
  const unsigned char* left = nullptr;
  const unsigned char* right = nullptr;
  uint64_t bytes = 0;
};

TUTTI_KERNEL(tutti_fold_f32, FoldCall, gpu::kMaxThreads, 2) {
  TUTTI_SHARED(BlockShared, shared);
  const BlockGroup group(shared, nullptr);
  constexpr uint64_t kGrain = 128;
  const uint64_t each = (arguments.bytes / ptx::grid_size() + kGrain) / kGrain * kGrain;
  const uint64_t begin = ptx::block_index() * each;
  if (begin >= arguments.bytes) return;
  Instruction op;
  op.sources = 2;
  Segment segment;
  segment.bytes = each < arguments.bytes - begin ? each : arguments.bytes - begin;
  Arithmetic how;
  how.op = Op::Sum;
  how.element_bytes = sizeof(float);
  const unsigned char* const operands[] = {arguments.left + begin, arguments.right + begin};
  BlockReduce<Plain<float>, gpu::KernelKind::Slots>::run(group, how, op, segment, arguments.to + begin, nullptr,
                                                         operands);
}

}  // namespace tutti::exec::cuda
