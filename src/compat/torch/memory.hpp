// Tensors in memory that ranks of this host read and write directly: tuttiMemAlloc.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti_torch {

/// A tensor of its own block of such memory, uninitialised. Only for the CPU.
at::Tensor mapped_tensor(at::IntArrayRef sizes, const at::TensorOptions& options);

/// PyTorch's CPU allocator takes blocks of at least `from` bytes from this memory, in all threads; nothing: no blocks.
/// Returns what was so before.
std::optional<size_t> map_allocations(std::optional<size_t> from);

/// Blocks of mapped memory that tensors hold now, and their bytes.
struct Mapped {
  int64_t blocks, bytes;
};
Mapped mapped_now();

}  // namespace tutti_torch
