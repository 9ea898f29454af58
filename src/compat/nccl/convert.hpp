// NCCL's codes, element types and operators to Tutti's and back: by tables, since their values differ (ncclMax is 2
// where tuttiMin is 2).
#pragma once

#include <array>
#include <cstring>

#include "nccl.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// What a caller passed as an enumerator, which may be none: C++ has no such values, so it is read as a number.
template <class Enum>
int number_of(const Enum& value) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

inline constexpr std::array<tuttiDataType_t, ncclNumTypes> kTypes = {
    tuttiInt8,    tuttiUint8,   tuttiInt32,   tuttiUint32,   tuttiInt64,      tuttiUint64,
    tuttiFloat16, tuttiFloat32, tuttiFloat64, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
inline constexpr std::array<tuttiRedOp_t, ncclNumOps> kOperators = {tuttiSum, tuttiProd, tuttiMax, tuttiMin, tuttiAvg};

/// An operator made by ncclRedOpCreatePreMulSum keeps Tutti's value, unless its scalar lies on the host and is read at
/// each call: then it has one of these.
inline constexpr int kFirstLateScalar = 1 << 30;

/// By tuttiResult_t.
inline constexpr std::array<ncclResult_t, tuttiInProgress + 1> kResults = {
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
};

}  // namespace tutti::nccl
