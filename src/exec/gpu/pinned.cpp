#include "exec/gpu/pinned.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/log.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr uint64_t kSmallest = 4096, kDevicePage = 64 << 10;

constexpr int kHost = -1;

/// Blocks that are not in use, by GPU (or kHost) and size: powers of two.
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

/// In whole pages of the GPU.
unsigned char* allocate_on_device(const Gpu& gpu, uint64_t bytes) {
  const auto memory = reinterpret_cast<uintptr_t>(gpu.allocate_on_device(bytes + kDevicePage));
  return reinterpret_cast<unsigned char*>((memory + kDevicePage - 1) / kDevicePage * kDevicePage);
}

std::shared_ptr<unsigned char> block(const Gpu& gpu, int where, uint64_t wanted) {
  const uint64_t bytes = std::bit_ceil(std::max(wanted, where == kHost ? kSmallest : kDevicePage));
  unsigned char* found = take(where, bytes);
  if (found == nullptr) {
    found = where == kHost ? gpu.allocate_on_host(bytes) : allocate_on_device(gpu, bytes);
  }
  return {found, [where, bytes](unsigned char* gone) {
            Spare& spare = Spare::of_this_process();
            const std::lock_guard lock(spare.mutex);
            spare.blocks[{where, bytes}].push_back(gone);
          }};
}

}  // namespace

std::shared_ptr<unsigned char> pinned(const Gpu& gpu, uint64_t bytes) { return block(gpu, kHost, bytes); }

std::shared_ptr<unsigned char> on_device(const Gpu& gpu, uint64_t bytes) { return block(gpu, gpu.number(), bytes); }

Reserve::Reserve(const Gpu& gpu, Where where, uint64_t bytes)
    : gpu_(gpu),
      where_(where),
      bytes_(bytes),
      all_(where == Where::OnHost ? pinned(gpu, bytes) : on_device(gpu, bytes)) {}

std::shared_ptr<unsigned char> Reserve::take(uint64_t bytes) {
  const uint64_t page = where_ == Where::OnHost ? kSmallest : kDevicePage;
  const uint64_t whole = (bytes + page - 1) / page * page;
  if (whole > bytes_ - used_) {
    log_info(
        "the memory that is reserved for messages of {} to other hosts is used up, and more is allocated: calls "
        "that are made meanwhile may wait",
        gpu_.name());
    return where_ == Where::OnHost ? pinned(gpu_, bytes) : on_device(gpu_, bytes);
  }
  used_ += whole;
  return {all_, all_.get() + used_ - whole};
}

}  // namespace tutti::exec::gpu
