// What NCCL's device API passes by value or asks for: nccl_device.h has it, nccl.h has not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::nccl {

struct Team {
  int nRanks, rank, stride;
};

/// ncclCommProperties_t.
struct CommProperties {
  size_t size;
  unsigned magic, version;
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  int ginType, nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;
  int ginMinStride, ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport, cftMulticastSupport, cftCountedSupport;
};

}  // namespace tutti::nccl
