#include "exec/cuda/pool.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/status.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kChunk = 2 << 20, kAlignment = 512;

/// What pools that are gone have left, by device.
struct Spare {
  std::mutex mutex;
  std::map<int, std::vector<Pool::Block>> chunks;
  static Spare& of_this_process() {
    static auto* const kSpare = new Spare;
    return *kSpare;
  }
};

}  // namespace

Pool::~Pool() {
  Spare& spare = Spare::of_this_process();
  const std::lock_guard lock(spare.mutex);
  for (const Block& chunk : chunks_) spare.chunks[device_.number()].push_back(chunk);
}

/// A chunk of so many bytes or more.
Pool::Block Pool::chunk(uint64_t bytes) const {
  Spare& spare = Spare::of_this_process();
  {
    const std::lock_guard lock(spare.mutex);
    auto& chunks = spare.chunks[device_.number()];
    const auto found = std::find_if(chunks.begin(), chunks.end(),
                                    [&](const Block& one) { return one.bytes >= bytes && one.bytes <= 2 * bytes; });
    if (found != chunks.end()) {
      const Block block = *found;
      chunks.erase(found);
      return block;
    }
  }
  const tutti::cuda::WithContext with(device_.context());
  Block made{0, bytes};
  tutti::cuda::check(tutti::cuda::driver().cuMemAlloc(&made.at, bytes), "memory of the GPU for programs");
  return made;
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
    if (rest_.bytes > 0) free_.push_back(rest_);
    rest_ = chunk(std::max(kChunk, bytes));
    chunks_.push_back(rest_);
  }
  const Block taken{rest_.at, bytes};
  rest_.at += bytes;
  rest_.bytes -= bytes;
  return taken;
}

}  // namespace tutti::exec::cuda
