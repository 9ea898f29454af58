/* What the parts of the test client share: the library's functions, found by dlsym as vLLM does, and checks. */
#ifndef TUTTI_TESTS_NCCL_CLIENT_H_
#define TUTTI_TESTS_NCCL_CLIENT_H_

#include <nccl.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define FUNCTIONS(X) \
  X(ncclGetVersion) X(ncclGetErrorString) X(ncclGetLastError) X(ncclGetUniqueId) X(ncclCommInitRank) \
  X(ncclCommInitRankConfig) X(ncclCommInitRankScalable) X(ncclCommInitAll) X(ncclCommFinalize) X(ncclCommDestroy) \
  X(ncclCommAbort) X(ncclCommRevoke) X(ncclCommSplit) X(ncclCommShrink) X(ncclCommGetAsyncError) X(ncclCommCount) \
  X(ncclCommUserRank) X(ncclCommCuDevice) X(ncclCommRegister) X(ncclCommDeregister) X(ncclCommWindowRegister) \
  X(ncclCommWindowDeregister) X(ncclMemAlloc) X(ncclMemFree) X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy) \
  X(ncclAllReduce) X(ncclReduce) X(ncclBcast) X(ncclBroadcast) X(ncclReduceScatter) X(ncclAllGather) \
  X(ncclAlltoAll) X(ncclGather) X(ncclScatter) X(ncclSend) X(ncclRecv) X(ncclGroupStart) X(ncclGroupEnd) \
  X(ncclGroupSimulateEnd)
/* clang-format on */

struct api {
#define MEMBER(name) __typeof__(name)* name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  /* Newer than the header that this may be compiled with. */
  ncclResult_t (*ncclCommGrow)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
  ncclResult_t (*ncclCommGetUniqueId)(ncclComm_t, ncclUniqueId*);
  ncclResult_t (*ncclSignal)(int, int, int, unsigned, ncclComm_t, cudaStream_t);
  ncclResult_t (*ncclAllReduceConfig)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t,
                                      const void*);
  ncclResult_t (*ncclDevCommCreate)(ncclComm_t, const void*, void*);
};
extern struct api api;
extern int failures; /* of this process */

/* The call returns that code, and a failure has a text. */
#define EXPECT(code, call)                                                                                            \
  do {                                                                                                                \
    const ncclResult_t got_ = (call);                                                                                 \
    const char* const text_ = api.ncclGetLastError(NULL);                                                             \
    if (got_ != (code) || ((code) != ncclSuccess && (code) != ncclInProgress && *text_ == '\0')) {                    \
      fprintf(stderr, "%s:%d: %s: %d instead of %d: %s\n", __FILE__, __LINE__, #call, (int)got_, (int)(code), text_); \
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                                             \
    }                                                                                                                 \
  } while (0)
#define SUCCEED(call) EXPECT(ncclSuccess, call)
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                     \
    }                                                                         \
  } while (0)

/* Wrong arguments of every kind: NCCL's code, a text, no crash. */
void bad_input(void);

/* Each rank's stream and block of device memory: client_device.c. */
#define DEVICE_BYTES 4096
void device_load(void);
void device_use(int rank);
cudaStream_t device_stream(void);
char* device_memory(void);
void device_put(size_t at, const void* from, size_t bytes);
void device_get(void* to, size_t at, size_t bytes);
void device_finish(void);
void device_capture(void);
void device_replay(void); /* … what was captured, once */

#endif
