// torch.distributed._symmetric_memory on tensors of the CPU: PyTorch's interface to memory that all ranks of a group
// load from and store to. Underneath are memory of tuttiMemAlloc and a window for each tensor and group.
#pragma once

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

namespace tutti_torch {

/// From now on PyTorch makes symmetric memory of the CPU here, under the name TUTTI.
void serve_symmetric_memory();

/// `tensor`, a piece of a peer's memory that PyTorch has made of a handle, as one that keeps the mapping. Throws
/// ValueError where it does not lie in that memory. Tensors of other backends' handles are returned as they are.
at::Tensor kept(const c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>& handle, const at::Tensor& tensor);

}  // namespace tutti_torch
