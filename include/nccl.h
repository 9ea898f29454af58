/* Tutti behind NCCL's interface: a program written for NCCL 2.32 or earlier compiles with this header and runs with
 * Tutti's libnccl.so.2. Names, values and layouts are NCCL's; docs/nccl.md says what differs and what is refused.
 *
 * It needs no CUDA: where the CUDA headers are missing, streams and events are the incomplete types that CUDA has too.
 * Buffers may be host memory (malloc). A call without a stream then blocks until this rank's part is done.
 */
#ifndef TUTTI_NCCL_H_
#define TUTTI_NCCL_H_
#define NCCL_H_ /* the guard of NCCL's own header: a program that also includes that one keeps this one */

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(TUTTI_NCCL_WITHOUT_CUDA) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#define TUTTI_NCCL_HAS_CUDA 1
#endif
#endif
#ifdef TUTTI_NCCL_HAS_CUDA
#include <cuda_runtime.h>
/* Programs use the types of these without including them: NCCL's header does. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#if defined(__cplusplus)
#include <cuda_fp8.h>
#endif
#else
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
/* Up to 2.8 the minor version had three digits' place, later four. */
#define NCCL_VERSION(major, minor, patch) \
  ((major) <= 2 && (minor) <= 8 ? (major)*1000 + (minor)*100 + (patch) : (major)*10000 + (minor)*100 + (patch))
#ifndef TUTTI_NCCL_HEADER_VERSION
#define NCCL_VERSION_CODE 23203
#else
/* Programs leave out what is newer than this number. 22707 (2.27.7) is the last one without the device API, which Tutti
 * does not have. Structures and functions below stay as they are. */
#define NCCL_VERSION_CODE TUTTI_NCCL_HEADER_VERSION
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- constants ---------------------------------------------------------------------------------------------------- */

#define NCCL_COMM_NULL NULL
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_API_MAGIC 0xcafebeef
/* A field of a configuration with this value is not set. */
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f

#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* the parent may have failed; its running calls are aborted first */
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/* --- types -------------------------------------------------------------------------------------------------------- */

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;

/* What all ranks need to join a communicator. Passed by value. */
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = ncclInt8,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = ncclInt32,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = ncclFloat16,
  ncclFloat32 = 7,
  ncclFloat = ncclFloat32,
  ncclFloat64 = 8,
  ncclDouble = ncclFloat64,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Values from ncclNumOps on are operators that ncclRedOpCreatePreMulSum made. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

typedef enum {
  ncclScalarDevice = 0,       /* read when a call uses the operator */
  ncclScalarHostImmediate = 1 /* read when the operator is made */
} ncclScalarResidence_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;

/* Every configuration begins with its size, a magic number and the version of the header; its initializer sets them.
 * A program compiled with an older header passes a shorter one: what it lacks is not set. */

/* A communicator's. Tutti honours `blocking` and `commName`; the others tune GPU kernels and networks of NCCL's, and
 * are checked and ignored. */
typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;
/* clang-format off: one row of values for each row of fields */
#define NCCL_CONFIG_INITIALIZER                                                                                            \
  {                                                                                                                        \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                 \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                                               /* blocking … */     \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, /* netName … */      \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                                               \
        NCCL_CONFIG_UNDEF_INT, /* collnetEnable … */                                                                     \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* nChannels… … */ \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                                               \
        NCCL_CONFIG_UNDEF_INT,                                               /* maxP2pPeers … */                         \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* rmaEagerInit … */                        \
  }
/* clang-format on */

/* An option of a vendor, in a list. Tutti has none: it ignores them, as NCCL does. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* A single call's. `algSelection` is refused where `forceAlgSelection` is set, and `launchCompletionEvent` always. */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;
/* clang-format off */
#define NCCL_COLLCONFIG_INITIALIZER                                                                                  \
  {                                                                                                                  \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR,                              \
    NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, /* minCTAs … */      \
    NCCL_CONFIG_UNDEF_PTR, 1, NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR,                  /* algSelection … */ \
  }
/* clang-format on */

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* microseconds */
} ncclSimInfo_t;
#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                                        \
  {                                                                                               \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_ENCRYPTION_MODE_NONE, \
        NCCL_CONFIG_UNDEF_PTR                                                                     \
  }

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* --- functions: each has a second name, with a p before it, for libraries that intercept the first --------------- */

#define TUTTI_NCCL(result, name, parameters) \
  result name parameters;                    \
  result p##name parameters;

/* The library. ncclGetVersion: 2.30.7 unless TUTTI_NCCL_VERSION says otherwise. ncclGetLastError: the text of this
 * thread's last failure, or of the communicator's if that has failed since. */
TUTTI_NCCL(ncclResult_t, ncclGetVersion, (int* version))
TUTTI_NCCL(const char*, ncclGetErrorString, (ncclResult_t result))
TUTTI_NCCL(const char*, ncclGetLastError, (ncclComm_t comm))
TUTTI_NCCL(void, ncclResetDebugInit, (void))
TUTTI_NCCL(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config))

/* Memory that ranks of a host can map: see tuttiMemAlloc. */
TUTTI_NCCL(ncclResult_t, ncclMemAlloc, (void** pointer, size_t size))
TUTTI_NCCL(ncclResult_t, ncclMemFree, (void* pointer))

/* Communicators. */
TUTTI_NCCL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))
TUTTI_NCCL(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))
TUTTI_NCCL(ncclResult_t, ncclCommInitRankConfig,
           (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclCommInitRankScalable,
           (ncclComm_t * comm, int ranks, int rank, int idCount, ncclUniqueId* ids, ncclConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ranks, const int* devices))
TUTTI_NCCL(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
TUTTI_NCCL(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
TUTTI_NCCL(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
TUTTI_NCCL(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags))
TUTTI_NCCL(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclCommShrink,
           (ncclComm_t comm, int* excluded, int excludedCount, ncclComm_t* made, ncclConfig_t* config, int flags))
TUTTI_NCCL(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* id))
TUTTI_NCCL(ncclResult_t, ncclCommGrow,
           (ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made, ncclConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error))
TUTTI_NCCL(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count))
TUTTI_NCCL(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank))
TUTTI_NCCL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device))
TUTTI_NCCL(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags))
TUTTI_NCCL(ncclResult_t, ncclCommResume, (ncclComm_t comm))
TUTTI_NCCL(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value))

/* Both let peers read a buffer of a GPU where it lies (tuttiCommRegister); each rank may call them alone. The handle or
 * window is NULL where nothing is gained: calls with the buffer work as without. A window of host memory is one of
 * Tutti's, for one-sided calls: all ranks register it, and deregister it, in the same order, a thread with several
 * ranks in a group, at whose end it is there. */
TUTTI_NCCL(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buffer, size_t size, void** handle))
TUTTI_NCCL(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle))
TUTTI_NCCL(ncclResult_t, ncclCommWindowRegister,
           (ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int flags))
TUTTI_NCCL(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))
TUTTI_NCCL(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void** pointer))

/* Operators. */
TUTTI_NCCL(ncclResult_t, ncclRedOpCreatePreMulSum,
           (ncclRedOp_t * op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence, ncclComm_t comm))
TUTTI_NCCL(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))

/* Collectives: tutti.h describes each, under tutti… instead of nccl…. */
TUTTI_NCCL(ncclResult_t, ncclAllReduce,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclReduce,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
            cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclBcast,
           (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclBroadcast,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclReduceScatter,
           (const void* send, void* recv, size_t recvCount, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclAllGather,
           (const void* send, void* recv, size_t sendCount, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclAlltoAll,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclGather,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclScatter,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream))

/* The same with a configuration; NULL: none. */
TUTTI_NCCL(ncclResult_t, ncclAllReduceConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclReduceConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclBroadcastConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclReduceScatterConfig,
           (const void* send, void* recv, size_t recvCount, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclAllGatherConfig,
           (const void* send, void* recv, size_t sendCount, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclAlltoAllConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclGatherConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))
TUTTI_NCCL(ncclResult_t, ncclScatterConfig,
           (const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream, const ncclCollConfig_t* config))

/* Point to point, groups. */
TUTTI_NCCL(ncclResult_t, ncclSend,
           (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclRecv,
           (void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclGroupStart, (void))
TUTTI_NCCL(ncclResult_t, ncclGroupEnd, (void))
TUTTI_NCCL(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info))

/* One-sided calls, on host memory (tuttiPut, tuttiSignal, tuttiWaitSignal). Each rank passes its own handle of a
 * window. Signals are of a communicator and context; they are there once all ranks have registered a window of host
 * memory. */
TUTTI_NCCL(ncclResult_t, ncclPutSignal,
           (const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window, size_t offset,
            int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclSignal,
           (int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream))
TUTTI_NCCL(ncclResult_t, ncclWaitSignal,
           (int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream))

/* Parameters: refused with ncclInvalidUsage (ncclParamDumpAll does nothing). */
TUTTI_NCCL(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char* key))
TUTTI_NCCL(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t handle, int8_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t handle, int16_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t handle, int32_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t handle, int64_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t handle, uint8_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t handle, uint16_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t handle, uint32_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t handle, uint64_t* out))
TUTTI_NCCL(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t handle, const char** out))
TUTTI_NCCL(ncclResult_t, ncclParamGet, (ncclParamHandle_t handle, void* out, int maxLength, int* length))
TUTTI_NCCL(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* length))
TUTTI_NCCL(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** table, int* length))
TUTTI_NCCL(void, ncclParamDumpAll, (void))

#undef TUTTI_NCCL

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUTTI_NCCL_H_ */
