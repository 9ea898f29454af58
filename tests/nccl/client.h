/* What the parts of the test client share: the library's functions, found by dlsym as vLLM does, and checks. */
#ifndef TUTTI_TESTS_NCCL_CLIENT_H_
#define TUTTI_TESTS_NCCL_CLIENT_H_

#include <nccl.h>
#include <pthread.h>
#include <stdint.h>
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
#define WITH_CONFIG(X) \
  X(ncclAllReduceConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t) \
  X(ncclReduceConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int) \
  X(ncclBroadcastConfig, const void*, void*, size_t, ncclDataType_t, int) \
  X(ncclReduceScatterConfig, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t) \
  X(ncclAllGatherConfig, const void*, void*, size_t, ncclDataType_t) \
  X(ncclAlltoAllConfig, const void*, void*, size_t, ncclDataType_t) \
  X(ncclGatherConfig, const void*, void*, size_t, ncclDataType_t, int) \
  X(ncclScatterConfig, const void*, void*, size_t, ncclDataType_t, int)
/* clang-format on */
#define CONFIG_MEMBER(name, ...) ncclResult_t (*name)(__VA_ARGS__, ncclComm_t, cudaStream_t, const void*);

struct wait_signal { /* ncclWaitSignalDesc_t */
  int count, peer, signal, context;
};

struct api {
#define MEMBER(name) __typeof__(name)* name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  /* Newer than the header that this may be compiled with. */
  ncclResult_t (*ncclCommGrow)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
  ncclResult_t (*ncclCommGetUniqueId)(ncclComm_t, ncclUniqueId*);
  ncclResult_t (*ncclWinGetUserPtr)(ncclComm_t, ncclWindow_t, void**);
  ncclResult_t (*ncclSignal)(int, int, int, unsigned, ncclComm_t, cudaStream_t);
  ncclResult_t (*ncclPutSignal)(const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned,
                                ncclComm_t, cudaStream_t);
  ncclResult_t (*ncclWaitSignal)(int, struct wait_signal*, ncclComm_t, cudaStream_t);
  ncclResult_t (*ncclDevCommCreate)(ncclComm_t, const void*, void*);
  ncclResult_t (*ncclCommMemStats)(ncclComm_t, int, uint64_t*);
  ncclResult_t (*ncclCommSuspend)(ncclComm_t, int);
  ncclResult_t (*ncclCommResume)(ncclComm_t);
  WITH_CONFIG(CONFIG_MEMBER)
};
extern struct api api, papi; /* by their names; by their names with a p before them */
extern int failures;         /* of this process */

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

#define COUNT 17
#define MOST 4

struct self {
  int rank, ranks;
};
extern int on_device;  /* buffers are memory of GPUs */
extern struct shared { /* by threads or processes */
  pthread_barrier_t barrier;
  ncclUniqueId id;
} * shared;

enum kind { AllReduce, Reduce, Broadcast, Bcast, ReduceScatter, AllGather, AlltoAll, Gather, Scatter, SendRecv, Kinds };
/* One call, by turns with the plain function, the one with a configuration, and the one whose name begins with p.
 * SendRecv: to the next rank, from the one before. */
ncclResult_t call(enum kind kind, struct self self, const void* in, void* out, size_t count, ncclDataType_t type,
                  ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);

/* client_collectives.c */
void collectives(struct self self, ncclComm_t comm);
/* client_comms.c. All ranks call new_comm; check_sum uses a communicator of that rank and size. */
ncclComm_t new_comm(struct self self);
ncclUniqueId new_id(struct self self);
void check_sum(ncclComm_t comm, int rank, int ranks);
void derived(struct self self, ncclComm_t comm);
void derived_in_a_group(struct self self, ncclComm_t comm);
void not_blocking(struct self self);
void watched(struct self self);
/* client_process_group.c */
void process_group(struct self self);
/* client_calls.c */
void groups(struct self self, ncclComm_t a, ncclComm_t b);
void device_groups(struct self self, ncclComm_t a, ncclComm_t b);
void operators(struct self self, ncclComm_t comm);
void memory(struct self self, ncclComm_t comm);
void device_scalar(struct self self, ncclComm_t comm);
void default_streams(struct self self, ncclComm_t comm);
/* client_windows.c: one-sided calls, on host memory, and on memory of GPUs. */
void one_sided(struct self self, ncclComm_t comm);
void device_one_sided(struct self self, ncclComm_t comm, ncclComm_t other);
void one_sided_in_groups(struct self self, ncclComm_t comm);
void bad_one_sided(ncclComm_t comms[2]);
/* client_suspend.c */
#define NCCL_SUSPEND 1 /* NCCL_SUSPEND_MEM, which older headers do not have */
void suspended(struct self self);
/* client_mismatch.c */
void mismatches(struct self self);
/* client_bad.c, client_bad_device.c. Wrong arguments of every kind: NCCL's code, a text, no crash. */
void bad_input(void);
void bad_device_input(void);
void refused_device_memory(void);

/* Each rank's stream and block of device memory: client_device.c. */
#define DEVICE_BYTES 4096
void device_load(void);
void device_use(int rank); /* its GPU: with fewer GPUs than ranks, they share them */
int device_count(void);
int device_holds_once(int number); /* does this process hold the GPU's primary context, and once? */
cudaStream_t device_stream(void);
char* device_memory(void);
void device_put(size_t at, const void* from, size_t bytes);
void device_get(void* to, size_t at, size_t bytes);
void device_finish(void);
void device_finish_stream(cudaStream_t stream);
/* For bad input: of the GPU in use, which is the first one's, or the one selected. */
void device_select(int device);
void device_put_at(char* to, const void* from, size_t bytes, cudaStream_t stream);
void device_get_at(void* to, const char* from, size_t bytes, cudaStream_t stream);
char* device_allocate(size_t bytes);
void device_free(char* memory);
cudaStream_t device_new_stream(void);
void device_destroy_stream(cudaStream_t stream);
void* device_event(void);
void device_record(void* event, cudaStream_t stream);
void device_wait(cudaStream_t stream, void* event);
int device_reached(void* event);
void device_nap(void); /* of a thread that looks again and again */
void device_capture(void);
void device_hold(void);   /* the capture ends … */
void device_replay(void); /* … and what was captured runs, once */

#endif
