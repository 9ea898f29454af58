// Arguments that calls which move data have in common, converted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compat/nccl/device.hpp"
#include "compat/nccl/handles.hpp"

namespace tutti::nccl {

inline tuttiDataType_t type_of(const ncclDataType_t& type) {
  const auto index = static_cast<unsigned>(number_of(type));
  if (index < kTypes.size()) return kTypes[index];
  refuse_argument("datatype ", number_of(type), " is not an ncclDataType_t");
}

/// CUDA's names of the default streams are 0, 1 and 2. With host memory, calls on them block. With device memory, 0
/// goes on as 1, by which Tutti knows it from no stream: so it refuses device memory that it cannot serve. Other
/// streams are CUDA's or, for host memory, Tutti's own, cast to cudaStream_t.
inline tuttiStream_t stream_of(cudaStream_t stream, const void* buffer) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  if (value > 2) return reinterpret_cast<tuttiStream_t>(stream);
  if (!has_driver() || !is_device_memory(buffer)) return nullptr;
  return reinterpret_cast<tuttiStream_t>(std::max<uintptr_t>(value, 1));
}

/// The result of a call that moves data. A communicator that is not made yet must not be used: NCCL's word for it.
inline ncclResult_t moved(tuttiResult_t result, ncclComm_t comm) {
  if (result == tuttiSuccess) [[likely]]
    return ncclSuccess;
  const ncclResult_t code = failed(result, comm);
  return code == ncclInProgress ? ncclInvalidArgument : code;
}

}  // namespace tutti::nccl
