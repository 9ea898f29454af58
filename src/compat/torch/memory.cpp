#include "compat/torch/memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <list>
#include <memory>
#include <mutex>

#include "compat/torch/checks.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

std::atomic<int64_t> blocks{0}, bytes_held{0};

/// A step makes the blocks of the one before again, and a new block costs page faults here and a mapping in each peer.
/// So blocks that tensors have freed are kept for the next ones, at most as many bytes as tensors have held at a time.
class Pool {
 public:
  /// `bytes` is rounded up, so that blocks of like lengths serve each other.
  void* take(size_t& bytes) {
    bytes = rounded(bytes);
    const std::lock_guard lock(mutex_);
    forget_parents();
    most_ = std::max(most_, held_ += bytes);
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& i) { return i.bytes == bytes; });
    if (found != idle_.rend()) {
      void* const data = found->data;
      idle_bytes_ -= bytes;
      idle_.erase(std::next(found).base());
      return data;
    }
    void* data = nullptr;
    const tuttiResult_t result = tuttiMemAlloc(&data, bytes);
    if (result != tuttiSuccess) held_ -= bytes;
    tutti::check(result);
    return data;
  }

  /// `owner`: the process that has taken the block.
  void give(void* data, size_t bytes, pid_t owner) {
    const std::lock_guard lock(mutex_);
    forget_parents();
    if (owner != process_) {
      tuttiMemFree(data);
      return;
    }
    held_ -= bytes;
    idle_.push_back({data, bytes});
    idle_bytes_ += bytes;
    while (idle_bytes_ > most_ - held_) {
      tuttiMemFree(idle_.front().data);
      idle_bytes_ -= idle_.front().bytes;
      idle_.pop_front();
    }
  }

 private:
  struct Idle {
    void* data;
    size_t bytes;
  };

  static size_t rounded(size_t bytes) {
    const size_t step = std::max<size_t>(4096, std::bit_floor(bytes) / 8);
    return (bytes + step - 1) / step * step;
  }

  /// After a fork the parent's blocks are memory of both processes: they serve the parent only.
  void forget_parents() {
    const pid_t process = getpid();
    if (process == process_) return;
    process_ = process;
    for (const Idle& idle : idle_) tuttiMemFree(idle.data);
    idle_.clear();
    idle_bytes_ = held_ = most_ = 0;
  }

  std::mutex mutex_;
  pid_t process_ = 0;
  std::list<Idle> idle_;  // the block that was freed last is the last
  size_t idle_bytes_ = 0, held_ = 0, most_ = 0;
};

/// Never destroyed: tensors may outlive everything.
Pool& pool() {
  static Pool* const kOne = new Pool;
  return *kOne;
}

struct Block {
  void* data;
  size_t bytes;
  pid_t owner;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block->data != nullptr) pool().give(block->data, block->bytes, block->owner);
  --blocks;
  bytes_held -= static_cast<int64_t>(block->bytes);
}

c10::DataPtr mapped_block(size_t bytes) {
  auto block = std::make_unique<Block>(Block{nullptr, bytes, getpid()});
  if (bytes > 0) block->data = pool().take(block->bytes);
  ++blocks;
  bytes_held += static_cast<int64_t>(block->bytes);
  void* const data = block->data;
  return {data, block.release(), free_block, at::Device(at::kCPU)};
}

/// Small blocks come from PyTorch's own allocator.
class MappedAllocator : public c10::Allocator {
 public:
  void use(c10::Allocator* usual, size_t from) {
    usual_ = usual;
    from_ = from;
  }
  c10::Allocator* usual() const { return usual_; }
  size_t from() const { return from_; }
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < from_) return usual()->allocate(bytes);
    try {
      return mapped_block(bytes);
    } catch (const tutti::Error&) {  // no descriptor or no memory of this kind is left: any other will do
      return usual()->allocate(bytes);
    }
  }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }

 private:
  std::atomic<c10::Allocator*> usual_{nullptr};
  std::atomic<size_t> from_{0};
};

/// Never destroyed: tensors may outlive everything.
MappedAllocator& allocator() {
  static MappedAllocator* const kOne = new MappedAllocator;
  return *kOne;
}

constexpr uint8_t kAnyPriority = 255;

}  // namespace

at::Tensor mapped_tensor(at::IntArrayRef sizes, const at::TensorOptions& options) {
  demand(options.device().is_cpu(), "tutti_torch.empty", "the memory is the CPU's: device must be cpu");
  const size_t item = options.dtype().itemsize();
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * item;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, mapped_block(bytes), nullptr, false);
  return at::empty({0}, options.pinned_memory(false)).set_(storage, 0, sizes);
}

std::optional<size_t> map_allocations(std::optional<size_t> from) {
  MappedAllocator& mapped = allocator();
  c10::Allocator* const now = c10::GetCPUAllocator();
  const bool on = now == &mapped;
  const auto before = on ? std::optional(mapped.from()) : std::nullopt;
  if (from) {
    mapped.use(on ? mapped.usual() : now, *from);
    c10::SetCPUAllocator(&mapped, kAnyPriority);
  } else if (on) {
    c10::SetCPUAllocator(mapped.usual(), kAnyPriority);
  }
  return before;
}

Mapped mapped_now() { return {blocks, bytes_held}; }

}  // namespace tutti_torch
