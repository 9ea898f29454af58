// NCCL's configurations: structures that begin with their size, a magic number and a version.
#pragma once

#include <cstddef>

#include "compat/nccl/handles.hpp"

namespace tutti::nccl {

inline constexpr size_t kMaxConfigBytes = 4096;  // more is not a size, but a structure that was not initialised

/// Throws Refusal if the structure was not made by its initializer.
void check_header(const void* config, unsigned magic, const char* type, const char* initializer);
inline void check_header(const void* config, const char* type, const char* initializer) {
  check_header(config, NCCL_API_MAGIC, type, initializer);
}

/// A communicator's, as Tutti's. Throws Refusal, which names the field.
tuttiConfig_t converted(const ncclConfig_t* config);

/// What it says of one-sided calls; unset: as they are. `config` has been converted.
void set_signals(ncclComm& comm, const ncclConfig_t* config);

/// A call's. Throws Refusal for what would be ignored though it asks for a certain behaviour.
void check_call_config(const ncclCollConfig_t* config);

}  // namespace tutti::nccl
