#include "compat/torch/memory.hpp"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "compat/torch/convert.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

std::atomic<int64_t> blocks{0}, bytes_held{0};

struct Block {
  void* data;
  int64_t bytes;
};

void free_block(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  tuttiMemFree(block->data);
  --blocks;
  bytes_held -= block->bytes;
}

c10::DataPtr mapped_block(size_t bytes) {
  auto block = std::make_unique<Block>(Block{nullptr, static_cast<int64_t>(bytes)});
  if (bytes > 0) tutti::check(tuttiMemAlloc(&block->data, bytes));
  ++blocks;
  bytes_held += block->bytes;
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

void map_allocations(bool on, size_t from) {
  MappedAllocator& mapped = allocator();
  c10::Allocator* const now = c10::GetCPUAllocator();
  if (on) {
    mapped.use(now == &mapped ? mapped.usual() : now, from);
    c10::SetCPUAllocator(&mapped, kAnyPriority);
  } else if (now == &mapped) {
    c10::SetCPUAllocator(mapped.usual(), kAnyPriority);
  }
}

Mapped mapped_now() { return {blocks, bytes_held}; }

}  // namespace tutti_torch
