/* Prints the values and layouts of nccl.h that programs have compiled in. Built with each header: abi.py compares. */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name) printf("%s %lld\n", #name, (long long)(name));
#define FIELD(type, field) printf("%s.%s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(((type*)0)->field));
/* A configuration's initializer, int by int, but for its size and version. Static: what pads it is 0. */
#define INITIALIZER(type, initializer)                                                     \
  do {                                                                                     \
    static type made = initializer;                                                        \
    made.version = 0;                                                                      \
    for (size_t at = sizeof(size_t); at + sizeof(int) <= END_OF_##type; at += sizeof(int)) \
      printf("%s+%zu %d\n", #initializer, at, *(const int*)((const char*)&made + at));     \
  } while (0);
#define END_OF_ncclConfig_t offsetof(ncclConfig_t, nvlinkCentricSched) + sizeof(int)
#define END_OF_ncclSimInfo_t offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float)
#define END_OF_ncclCollConfig_t sizeof(ncclCollConfig_t)
#define END_OF_ncclEncryptionConfig_t offsetof(ncclEncryptionConfig_t, mode) + sizeof(int)

/* clang-format off */
int main(void) {
  printf("version %d\n", NCCL_VERSION_CODE);
  VALUE(NCCL_VERSION(2, 8, 3)) VALUE(NCCL_VERSION(2, 30, 7)) VALUE(NCCL_UNIQUE_ID_BYTES) VALUE(sizeof(ncclUniqueId))
  VALUE(NCCL_CONFIG_UNDEF_INT) VALUE(NCCL_SPLIT_NOCOLOR) VALUE(NCCL_SHRINK_DEFAULT) VALUE(NCCL_SHRINK_ABORT)
  VALUE(NCCL_WIN_DEFAULT) VALUE(NCCL_WIN_COLL_SYMMETRIC) VALUE(sizeof(ncclResult_t)) VALUE(sizeof(ncclDataType_t))
  VALUE(sizeof(ncclRedOp_t)) VALUE(sizeof(ncclComm_t)) VALUE(sizeof(ncclWindow_t)) VALUE(ncclMaxRedOp)
  VALUE(ncclSuccess) VALUE(ncclUnhandledCudaError) VALUE(ncclSystemError) VALUE(ncclInternalError)
  VALUE(ncclInvalidArgument) VALUE(ncclInvalidUsage) VALUE(ncclRemoteError) VALUE(ncclInProgress)
  VALUE(ncclInt8) VALUE(ncclChar) VALUE(ncclUint8) VALUE(ncclInt32) VALUE(ncclInt) VALUE(ncclUint32) VALUE(ncclInt64)
  VALUE(ncclUint64) VALUE(ncclFloat16) VALUE(ncclHalf) VALUE(ncclFloat32) VALUE(ncclFloat) VALUE(ncclFloat64)
  VALUE(ncclDouble) VALUE(ncclBfloat16) VALUE(ncclFloat8e4m3) VALUE(ncclFloat8e5m2) VALUE(ncclNumTypes)
  VALUE(ncclSum) VALUE(ncclProd) VALUE(ncclMax) VALUE(ncclMin) VALUE(ncclAvg) VALUE(ncclNumOps)
  VALUE(ncclScalarDevice) VALUE(ncclScalarHostImmediate)
  FIELD(ncclConfig_t, size) FIELD(ncclConfig_t, magic) FIELD(ncclConfig_t, version) FIELD(ncclConfig_t, blocking)
  FIELD(ncclConfig_t, cgaClusterSize) FIELD(ncclConfig_t, minCTAs) FIELD(ncclConfig_t, maxCTAs)
  FIELD(ncclConfig_t, netName) FIELD(ncclConfig_t, splitShare) FIELD(ncclConfig_t, trafficClass)
  FIELD(ncclConfig_t, commName) FIELD(ncclConfig_t, collnetEnable) FIELD(ncclConfig_t, CTAPolicy)
  FIELD(ncclConfig_t, shrinkShare) FIELD(ncclConfig_t, nvlsCTAs) FIELD(ncclConfig_t, nChannelsPerNetPeer)
  FIELD(ncclConfig_t, nvlinkCentricSched)
  FIELD(ncclSimInfo_t, size) FIELD(ncclSimInfo_t, magic) FIELD(ncclSimInfo_t, version)
  FIELD(ncclSimInfo_t, estimatedTime) VALUE(sizeof(ncclSimInfo_t))
  INITIALIZER(ncclConfig_t, NCCL_CONFIG_INITIALIZER) INITIALIZER(ncclSimInfo_t, NCCL_SIM_INFO_INITIALIZER)
#if NCCL_VERSION_CODE >= 23007
  VALUE(ncclTimeout) VALUE(NCCL_API_MAGIC) VALUE(NCCL_REVOKE_DEFAULT) VALUE(NCCL_SUSPEND_MEM)
  VALUE(NCCL_WIN_STRICT_ORDERING) VALUE(NCCL_WIN_REQUIRED_ALIGNMENT) VALUE(NCCL_CTA_POLICY_DEFAULT)
  VALUE(NCCL_CTA_POLICY_EFFICIENCY) VALUE(NCCL_CTA_POLICY_ZERO) VALUE(ncclStatGpuMemSuspend)
  VALUE(ncclStatGpuMemSuspended) VALUE(ncclStatGpuMemPersist) VALUE(ncclStatGpuMemTotal)
  FIELD(ncclConfig_t, graphUsageMode) FIELD(ncclConfig_t, numRmaCtx) FIELD(ncclConfig_t, maxP2pPeers)
  FIELD(ncclConfig_t, graphStreamOrdering)
  FIELD(ncclWaitSignalDesc_t, opCnt) FIELD(ncclWaitSignalDesc_t, peer) FIELD(ncclWaitSignalDesc_t, sigIdx)
  FIELD(ncclWaitSignalDesc_t, ctx) VALUE(sizeof(ncclWaitSignalDesc_t))
#endif
#if NCCL_VERSION_CODE >= 23203
  VALUE(ncclNumResults) VALUE(NCCL_WIN_GIN_ONLY) VALUE(NCCL_WIN_CFT_COUNTED)
  VALUE(ncclHostCftEnable) VALUE(ncclHostCftDisable) VALUE(ncclHostCftFallback) VALUE(ncclNvlsHostModeEnable)
  VALUE(ncclNvlsHostModeDisableTransport) VALUE(ncclNvlsHostModeDisableSymmetricMultimem)
  VALUE(NCCL_ENCRYPTION_MODE_NONE) VALUE(NCCL_ENCRYPTION_MODE_PSK)
  FIELD(ncclConfig_t, launchOrderImplicit) FIELD(ncclConfig_t, numRmaSig) FIELD(ncclConfig_t, rmaEagerInit)
  FIELD(ncclConfig_t, hostCftMode) FIELD(ncclConfig_t, nvlsHostMode) VALUE(sizeof(ncclConfig_t))
  FIELD(ncclCollConfig_t, size) FIELD(ncclCollConfig_t, magic) FIELD(ncclCollConfig_t, version)
  FIELD(ncclCollConfig_t, ext) FIELD(ncclCollConfig_t, minCTAs) FIELD(ncclCollConfig_t, maxCTAs)
  FIELD(ncclCollConfig_t, nvlsCTAs) FIELD(ncclCollConfig_t, cgaClusterSize) FIELD(ncclCollConfig_t, algSelection)
  FIELD(ncclCollConfig_t, forceAlgSelection) FIELD(ncclCollConfig_t, CTAPolicy) FIELD(ncclCollConfig_t, userProfilerTag)
  FIELD(ncclCollConfig_t, launchCompletionEvent) VALUE(sizeof(ncclCollConfig_t))
  FIELD(ncclConfigExt_t, next) FIELD(ncclConfigExt_t, key) FIELD(ncclConfigExt_t, val) VALUE(sizeof(ncclConfigExt_t))
  FIELD(ncclEncryptionConfig_t, mode) FIELD(ncclEncryptionConfig_t, psk) VALUE(sizeof(ncclEncryptionConfig_t))
  INITIALIZER(ncclCollConfig_t, NCCL_COLLCONFIG_INITIALIZER)
  INITIALIZER(ncclEncryptionConfig_t, NCCL_ENCRYPTION_CONFIG_INITIALIZER)
#endif
  return 0;
}
