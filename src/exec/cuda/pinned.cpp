#include "exec/cuda/pinned.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::exec::cuda {
namespace {

constexpr uint64_t kSmallest = 4096, kDevicePage = 64 << 10;

constexpr int kHost = -1;

/// Blocks that are not in use, by device (or kHost) and size: powers of two.
struct Spare {
  std::mutex mutex;
  std::map<std::pair<int, uint64_t>, std::vector<unsigned char*>> blocks;
  static Spare& of_this_process() {
    static auto* const kSpare = new Spare;
    return *kSpare;
  }
};

unsigned char* take(int where, uint64_t bytes) {
  Spare& spare = Spare::of_this_process();
  const std::lock_guard lock(spare.mutex);
  auto& blocks = spare.blocks[{where, bytes}];
  if (blocks.empty()) return nullptr;
  unsigned char* const block = blocks.back();
  blocks.pop_back();
  return block;
}

unsigned char* allocate_on_host(uint64_t bytes) {
  void* memory = nullptr;
  constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  tutti::cuda::check(tutti::cuda::driver().cuMemHostAlloc(&memory, bytes, kFlags), "pinned memory of the host");
  return static_cast<unsigned char*>(memory);
}

unsigned char* allocate_on_device(uint64_t bytes) {
  CUdeviceptr memory = 0;
  tutti::cuda::check(tutti::cuda::driver().cuMemAlloc(&memory, bytes + kDevicePage), "memory of the GPU for messages");
  return reinterpret_cast<unsigned char*>((memory + kDevicePage - 1) / kDevicePage * kDevicePage);
}

std::shared_ptr<unsigned char> block(const tutti::cuda::Device& device, int where, uint64_t wanted) {
  const uint64_t bytes = std::bit_ceil(std::max(wanted, where == kHost ? kSmallest : kDevicePage));
  unsigned char* found = take(where, bytes);
  if (found == nullptr) {
    const tutti::cuda::WithContext with(device.context());
    found = where == kHost ? allocate_on_host(bytes) : allocate_on_device(bytes);
  }
  return {found, [where, bytes](unsigned char* gone) {
            Spare& spare = Spare::of_this_process();
            const std::lock_guard lock(spare.mutex);
            spare.blocks[{where, bytes}].push_back(gone);
          }};
}

}  // namespace

std::shared_ptr<unsigned char> pinned(const tutti::cuda::Device& device, uint64_t bytes) {
  return block(device, kHost, bytes);
}

std::shared_ptr<unsigned char> on_device(const tutti::cuda::Device& device, uint64_t bytes) {
  return block(device, device.number(), bytes);
}

}  // namespace tutti::exec::cuda
