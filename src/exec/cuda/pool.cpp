#include "exec/cuda/pool.hpp"

#include <algorithm>

#include "base/status.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kChunk = 2 << 20, kAlignment = 512;

}  // namespace

Pool::~Pool() {
  try {
    const tutti::cuda::WithContext with(device_.context());
    for (const CUdeviceptr chunk : chunks_) tutti::cuda::driver().cuMemFree(chunk);
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

Pool::Block Pool::take(uint64_t wanted) {
  const uint64_t bytes = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->bytes >= bytes && (best == free_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best != free_.end() && best->bytes <= 2 * bytes) {
    const Block found = *best;
    free_.erase(best);
    return found;
  }
  if (rest_.bytes < bytes) {
    const tutti::cuda::WithContext with(device_.context());
    if (rest_.bytes > 0) free_.push_back(rest_);
    rest_ = {0, std::max(kChunk, bytes)};
    tutti::cuda::check(tutti::cuda::driver().cuMemAlloc(&rest_.at, rest_.bytes), "memory of the GPU for programs");
    chunks_.push_back(rest_.at);
  }
  const Block taken{rest_.at, bytes};
  rest_.at += bytes;
  rest_.bytes -= bytes;
  return taken;
}

}  // namespace tutti::exec::cuda
