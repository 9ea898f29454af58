// What NCCL's device API passes by value or asks for: nccl_device.h has it, nccl.h has not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl.h"

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

// Functions of nccl_device.h. NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, tutti::nccl::CommProperties* properties);
tutti::nccl::Team ncclTeamWorld(ncclComm_t comm);
tutti::nccl::Team ncclTeamRail(ncclComm_t comm);
tutti::nccl::Team ncclTeamLsa(ncclComm_t comm);
tutti::nccl::Team ncclTeamCft(ncclComm_t comm, int mode);
tutti::nccl::Team ncclTeamCftMultimem(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, tutti::nccl::Team of, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, tutti::nccl::Team of, int rank);
void ncclResetDebugInitInternal(void);
}
// NOLINTEND(readability-identifier-naming)
