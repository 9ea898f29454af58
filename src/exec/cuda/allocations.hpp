// Where addresses lie, as the driver of the GPUs knows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::exec::cuda {

struct Allocation {
  int device = -1;
  uint64_t begin = 0, bytes = 0;
};

/// Nullopt: the address is not in memory of a GPU.
std::optional<Allocation> allocation_of(const void* address);

/// Why [begin, begin + bytes), which begins in `first`, is not memory of one GPU throughout; "" if it is. One range may
/// have several allocations: PyTorch's expandable segments, memory that was mapped piece by piece.
std::string why_short(const Allocation& first, uint64_t begin, uint64_t bytes);

/// Is it in memory of a GPU, or was it in an allocation, now freed, that a call had buffers in? The driver does not
/// know an address of memory that was freed; without this it would count as the host's.
bool owns(const void* address);

/// Memory of the calling thread's GPU. Throws Error(OutOfMemory | InvalidUsage).
void* allocate(uint64_t bytes);
void release(void* memory);

}  // namespace tutti::exec::cuda
