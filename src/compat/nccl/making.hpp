// How the calls that make communicators share their work.
#pragma once

#include <cstring>
#include <functional>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {

/// A new communicator in *out. `create` makes Tutti's: at once, in the background, or, in a group, at its end. Throws
/// Refusal.
ncclResult_t make(ncclComm_t* out, const std::function<tuttiResult_t(tuttiComm_t*)>& create);
/// The same where Tutti makes such communicators outside groups only: in a group, a thread makes it at the end.
ncclResult_t make_apart(ncclComm_t* out, const std::function<tuttiResult_t(tuttiComm_t*)>& create);
/// Joins by an id.
ncclResult_t join(ncclComm_t* out, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config);

inline tuttiUniqueId converted(const ncclUniqueId& id) {
  static_assert(sizeof(ncclUniqueId) == sizeof(tuttiUniqueId));
  tuttiUniqueId result;
  std::memcpy(result.bytes, id.internal, sizeof result.bytes);
  return result;
}

/// A call came before the communicator was made: NCCL's code for it.
inline ncclResult_t ready(ncclResult_t result) { return result == ncclInProgress ? ncclInvalidArgument : result; }

}  // namespace tutti::nccl
