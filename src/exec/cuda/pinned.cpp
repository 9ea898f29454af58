#include "exec/cuda/pinned.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kSmallest = 4096;

/// Blocks that are not in use, by size: powers of two.
struct Spare {
  std::mutex mutex;
  std::map<uint64_t, std::vector<unsigned char*>> blocks;
  static Spare& of_this_process() {
    static auto* const kSpare = new Spare;
    return *kSpare;
  }
};

unsigned char* take(uint64_t bytes) {
  Spare& spare = Spare::of_this_process();
  const std::lock_guard lock(spare.mutex);
  auto& blocks = spare.blocks[bytes];
  if (blocks.empty()) return nullptr;
  unsigned char* const block = blocks.back();
  blocks.pop_back();
  return block;
}

unsigned char* allocate(const tutti::cuda::Device& device, uint64_t bytes) {
  const tutti::cuda::WithContext with(device.context());
  void* memory = nullptr;
  constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  tutti::cuda::check(tutti::cuda::driver().cuMemHostAlloc(&memory, bytes, kFlags), "pinned memory of the host");
  return static_cast<unsigned char*>(memory);
}

}  // namespace

std::shared_ptr<unsigned char> pinned(const tutti::cuda::Device& device, uint64_t wanted) {
  const uint64_t bytes = std::bit_ceil(std::max(wanted, kSmallest));
  unsigned char* block = take(bytes);
  if (block == nullptr) block = allocate(device, bytes);
  return {block, [bytes](unsigned char* gone) {
            Spare& spare = Spare::of_this_process();
            const std::lock_guard lock(spare.mutex);
            spare.blocks[bytes].push_back(gone);
          }};
}

}  // namespace tutti::exec::cuda
