// NCCL's codes, element types and operators to Tutti's and back: by tables, since their values differ (ncclMax is 2
// where tuttiMin is 2).
#pragma once

#include <array>
#include <cstring>

#include "nccl.h"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti::nccl {

/// What a caller passed as an enumerator, which may be none: C++ has no such values, so it is read as a number.
template <class Enum>
int number_of(const Enum& value) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

inline constexpr auto kTypes = [] {
  std::array<tuttiDataType_t, ncclNumTypes> types{};
#define TUTTI_TYPE(name, text, bytes, kind, c, arithmetic, nccl, ...) \
  if (nccl < ncclNumTypes) types[static_cast<size_t>(nccl) % ncclNumTypes] = tutti##c;
  TUTTI_TYPES(TUTTI_TYPE)
#undef TUTTI_TYPE
  return types;
}();
inline constexpr std::array<tuttiRedOp_t, ncclNumOps> kOperators = {tuttiSum, tuttiProd, tuttiMax, tuttiMin, tuttiAvg};

/// An operator made by ncclRedOpCreatePreMulSum keeps Tutti's value, unless its scalar lies on the host and is read at
/// each call: then it has one of these.
inline constexpr int kFirstLateScalar = 1 << 30;

/// By tuttiResult_t.
inline constexpr std::array<ncclResult_t, tuttiRevoked + 1> kResults = {
    ncclSuccess,          // tuttiSuccess
    ncclInvalidArgument,  // tuttiInvalidArgument
    ncclInvalidUsage,     // tuttiInvalidUsage
    ncclSystemError,      // tuttiSystemError
    ncclSystemError,      // tuttiOutOfMemory
    ncclTimeout,          // tuttiTimeout
    ncclRemoteError,      // tuttiPeerFailed
    ncclInvalidUsage,     // tuttiMismatch
    ncclRemoteError,      // tuttiAborted
    ncclRemoteError,      // tuttiProtocolError
    ncclInvalidUsage,     // tuttiUnsupported
    ncclInternalError,    // tuttiInternalError
    ncclInProgress,       // tuttiInProgress
    ncclRemoteError,      // tuttiRevoked
};

}  // namespace tutti::nccl
