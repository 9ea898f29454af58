#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "client.h"

static float in[64], out[64];

static void bad_arguments(ncclComm_t comm) {
  void* pointer = NULL;
  ncclWindow_t window = NULL;
  ncclComm_t made = NULL;
  ncclRedOp_t op;
  ncclResult_t state;
  int number;
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, NULL, 8, ncclFloat, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(NULL, out, 8, ncclFloat, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, (ncclDataType_t)12, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, (ncclDataType_t)-1, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, ncclFloat, (ncclRedOp_t)5, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, ncclFloat, (ncclRedOp_t)-1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, ncclFloat, (ncclRedOp_t)(1 << 30), comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, SIZE_MAX / 2, ncclFloat, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllGather(in, out, SIZE_MAX, ncclInt8, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclBroadcast(in, out, 8, ncclFloat, 2, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclReduce(in, out, 8, ncclFloat, ncclSum, -1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSend(in, 8, ncclFloat, 2, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclRecv(out, 8, ncclFloat, -1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclRecv(NULL, 8, ncclFloat, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclRedOpCreatePreMulSum(NULL, in, ncclFloat, ncclScalarHostImmediate, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpCreatePreMulSum(&op, in, ncclFloat, (ncclScalarResidence_t)2, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy(ncclSum, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy((ncclRedOp_t)77, comm));
  EXPECT(ncclInvalidArgument, api.ncclCommCount(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommUserRank(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommCuDevice(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommGetAsyncError(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommSplit(comm, 0, 0, NULL, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, NULL, 1, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommRevoke(comm, 1));
  EXPECT(ncclInvalidArgument, api.ncclCommMemStats(comm, 0, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommMemStats(comm, 4, (uint64_t*)in));
  EXPECT(ncclInvalidArgument, api.ncclCommRegister(comm, in, 8, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommRegister(comm, in, 0, &pointer));
  EXPECT(ncclInvalidArgument, api.ncclCommWindowRegister(comm, in, 8, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommRegister(comm, NULL, 8, &pointer));
  EXPECT(ncclInvalidArgument, api.ncclCommRegister(comm, in, SIZE_MAX, &pointer));
  EXPECT(ncclInvalidArgument, api.ncclCommDeregister(comm, in));
  EXPECT(ncclInvalidArgument, api.ncclCommWindowRegister(comm, in, 8, &window, 1 << 20));
  EXPECT(ncclInvalidArgument, api.ncclCommWindowDeregister(comm, (ncclWindow_t)in));
  EXPECT(ncclInvalidUsage, api.ncclSignal(0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidUsage, api.ncclDevCommCreate(comm, NULL, NULL));
  SUCCEED(api.ncclCommCount(comm, &number));
  SUCCEED(api.ncclCommGetAsyncError(comm, &state));
  REQUIRE(number == 2 && state == ncclSuccess); /* still usable */
}

/* Each function that takes a communicator refuses what is none. */
static void bad_handle(ncclComm_t comm) {
  int number, excluded = 0;
  void* pointer = NULL;
  uint64_t bytes;
  ncclComm_t made = NULL;
  ncclWindow_t window = NULL;
  ncclRedOp_t op;
  ncclUniqueId id;
  ncclResult_t state;
  const struct self self = {0, 2};
  for (int kind = 0; kind < Kinds; ++kind) {
    for (int form = 0; form < 3; ++form)
      EXPECT(ncclInvalidArgument, call((enum kind)kind, self, in, out, 8, ncclFloat, ncclSum, 0, comm, NULL));
  }
  EXPECT(ncclInvalidArgument, api.ncclSend(in, 8, ncclFloat, 1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclRecv(out, 8, ncclFloat, 1, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommCount(comm, &number));
  EXPECT(ncclInvalidArgument, api.ncclCommUserRank(comm, &number));
  EXPECT(ncclInvalidArgument, api.ncclCommCuDevice(comm, &number));
  EXPECT(ncclInvalidArgument, api.ncclCommGetAsyncError(comm, &state));
  EXPECT(ncclInvalidArgument, api.ncclCommFinalize(comm));
  EXPECT(ncclInvalidArgument, api.ncclCommRevoke(comm, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommSuspend(comm, NCCL_SUSPEND));
  EXPECT(ncclInvalidArgument, api.ncclCommResume(comm));
  EXPECT(ncclInvalidArgument, api.ncclCommSplit(comm, 0, 0, &made, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, &excluded, 1, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommGetUniqueId(comm, &id));
  EXPECT(ncclInvalidArgument, api.ncclCommMemStats(comm, 0, &bytes));
  EXPECT(ncclInvalidArgument, api.ncclCommRegister(comm, in, sizeof in, &pointer));
  EXPECT(ncclInvalidArgument, api.ncclCommDeregister(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommWindowRegister(comm, in, sizeof in, &window, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommWindowDeregister(comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclPutSignal(in, 8, ncclFloat, 1, window, 0, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclSignal(1, 0, 0, 0, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclWaitSignal(0, NULL, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclRedOpCreatePreMulSum(&op, in, ncclFloat, ncclScalarHostImmediate, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy((ncclRedOp_t)16, comm));
  REQUIRE(api.ncclGetLastError(comm) != NULL && made == NULL);
  if (comm != NULL) {
    EXPECT(ncclInvalidArgument, api.ncclCommGrow(comm, 3, NULL, -1, &made, NULL));
    EXPECT(ncclInvalidArgument, api.ncclCommDestroy(comm));
    EXPECT(ncclInvalidArgument, api.ncclCommAbort(comm));
  } else {
    EXPECT(ncclInvalidArgument, api.ncclCommGrow(NULL, 3, NULL, 2, &made, NULL));
    SUCCEED(api.ncclCommDestroy(NULL)); /* as in NCCL */
    SUCCEED(api.ncclCommAbort(NULL));
  }
}

/* Every collective with null buffers, roots and peers out of range, and sizes that overflow. */
static void bad_collectives(ncclComm_t comm) {
  const struct self self = {0, 2};
  for (int kind = 0; kind < Kinds; ++kind) {
    const enum kind k = (enum kind)kind;
    const int rooted = k == Reduce || k == Broadcast || k == Bcast || k == Gather || k == Scatter;
    for (int form = 0; form < 3; ++form) {
      EXPECT(ncclInvalidArgument, call(k, self, NULL, NULL, 8, ncclFloat, ncclSum, 0, comm, NULL));
      EXPECT(ncclInvalidArgument, call(k, self, in, out, SIZE_MAX, ncclInt8, ncclSum, 0, comm, NULL));
      EXPECT(ncclInvalidArgument, call(k, self, in, out, SIZE_MAX / 4 + 2, ncclFloat, ncclSum, 0, comm, NULL));
      EXPECT(ncclInvalidArgument, call(k, self, in, out, 8, (ncclDataType_t)12, ncclSum, 0, comm, NULL));
      EXPECT(ncclInvalidArgument, call(k, self, in, out, 8, (ncclDataType_t)-1, ncclSum, 0, comm, NULL));
      if (rooted) EXPECT(ncclInvalidArgument, call(k, self, in, out, 8, ncclFloat, ncclSum, 2, comm, NULL));
      if (rooted) EXPECT(ncclInvalidArgument, call(k, self, in, out, 8, ncclFloat, ncclSum, -1, comm, NULL));
    }
  }
}

/* What makes no sense for this communicator's two ranks. */
static void bad_derivation(ncclComm_t comm) {
  const int wrong[3] = {2, -1, 0};
  int both[2] = {0, 1}, twice[2] = {1, 1};
  ncclUniqueId id;
  ncclComm_t made = NULL;
  ncclSimInfo_t blank;
  memset(&blank, 0, sizeof blank);
  for (int i = 0; i < 3; ++i) { /* no rank, no rank, the caller itself */
    int excluded = wrong[i];
    EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, &excluded, 1, &made, NULL, 0));
  }
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, both, 2, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, both, 1 << 30, &made, NULL, 0)); /* none of them is read */
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, twice, 2, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, both, 0, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, both, -1, &made, NULL, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommShrink(comm, both, 1, &made, NULL, 2));
  EXPECT(ncclInvalidArgument, api.ncclCommSplit(comm, -5, 0, &made, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommGrow(comm, 2, NULL, -1, &made, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommGrow(comm, 3, NULL, 0, &made, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommGrow(comm, 3, NULL, -1, NULL, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommGetUniqueId(comm, NULL));
  SUCCEED(api.ncclCommGetUniqueId(comm, &id));
  EXPECT(ncclInvalidUsage, api.ncclCommGetUniqueId(comm, &id));
  REQUIRE(made == NULL);
  EXPECT(ncclInvalidUsage, api.ncclGroupSimulateEnd(&blank));
  SUCCEED(api.ncclGroupStart());
  EXPECT(ncclInvalidArgument, api.ncclGroupSimulateEnd(NULL));
  EXPECT(ncclInvalidArgument, api.ncclGroupEnd());
  SUCCEED(api.ncclGroupStart());
  EXPECT(ncclInvalidArgument, api.ncclGroupSimulateEnd(&blank));
  EXPECT(ncclInvalidArgument, api.ncclGroupEnd());
  EXPECT(ncclInvalidUsage, api.ncclGroupEnd());
}

static void bad_joining(void) {
  ncclComm_t comm = NULL;
  ncclUniqueId id, zeros;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER, blank;
  memset(&zeros, 0, sizeof zeros);
  memset(&blank, 0, sizeof blank);
  EXPECT(ncclInvalidArgument, api.ncclGetUniqueId(NULL));
  EXPECT(ncclInvalidArgument, api.ncclGetVersion(NULL));
  EXPECT(ncclInvalidArgument, api.ncclMemAlloc(NULL, 8));
  EXPECT(ncclInvalidArgument, api.ncclMemFree(in)); /* not of ncclMemAlloc */
  SUCCEED(api.ncclMemFree(NULL));
  REQUIRE(*api.ncclGetErrorString((ncclResult_t)99) != '\0' && *api.ncclGetErrorString((ncclResult_t)-1) != '\0');
  SUCCEED(api.ncclGetUniqueId(&id));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(NULL, 1, id, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 1, zeros, 0));
  memset(&zeros, 0xa5, sizeof zeros);
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 1, zeros, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 1, id, 1));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 0, id, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 2, id, -1));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &blank));
  config.blocking = 7;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.version = 0;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.collnetEnable = 77;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 32, 0)
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.nvlsHostMode = 77;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
#endif
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.netName = "carrier pigeons";
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.commName = "clears\x1b[2Jthe screen";
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  /* A header from the future has more fields: refused if one is set. One from the past has fewer. */
  union {
    ncclConfig_t known;
    int all[128];
  } future;
  for (int i = 0; i < 128; ++i) future.all[i] = NCCL_CONFIG_UNDEF_INT;
  future.known = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  for (size_t at = sizeof(ncclConfig_t) / sizeof(int); at < 40; ++at) future.all[at] = NCCL_CONFIG_UNDEF_INT;
  future.known.size = sizeof future;
  future.known.version = NCCL_VERSION(2, 99, 0);
  future.all[100] = 1;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &future.known));
  REQUIRE(strstr(api.ncclGetLastError(NULL), "newer field at byte 400") != NULL && comm == NULL);
  future.all[100] = NCCL_CONFIG_UNDEF_INT;
  SUCCEED(api.ncclCommInitRankConfig(&comm, 1, id, 0, &future.known));
  SUCCEED(api.ncclCommDestroy(comm));
  comm = NULL;
  SUCCEED(api.ncclGetUniqueId(&id));
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.size = offsetof(ncclConfig_t, netName);
  SUCCEED(api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  SUCCEED(api.ncclCommDestroy(comm));
  comm = NULL;
  SUCCEED(api.ncclGetUniqueId(&id));
  config.size = 8; /* shorter than what it begins with */
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankScalable(&comm, 1, 0, 0, &id, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(NULL, 1, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(&comm, 0, NULL));
  REQUIRE(comm == NULL);
  EXPECT(ncclInvalidUsage, api.ncclGroupEnd());
}

/* Calls that an open group has collected would be lost. */
static void destroy_in_group(ncclComm_t comm) {
  float x = 1, y = 0;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
  EXPECT(ncclInvalidUsage, api.ncclCommDestroy(comm));
  EXPECT(ncclInvalidUsage, api.ncclGroupEnd()); /* a call that fails in a group, as ever */
}

/* With host memory a stream is Tutti's own: another value is refused, and not read. */
static void bad_stream(ncclComm_t comm, cudaStream_t stream) {
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclSend(in, 8, ncclFloat, 1, comm, stream));
}

void bad_input(void) {
  ncclComm_t comms[2] = {NULL, NULL};
  char garbage[256];
  memset(garbage, 0xa5, sizeof garbage);
  bad_joining();
  SUCCEED(api.ncclCommInitAll(comms, 2, NULL));
  bad_arguments(comms[0]);
  bad_collectives(comms[0]);
  bad_derivation(comms[0]);
  bad_handle(NULL);
  bad_handle((ncclComm_t)garbage);
  bad_handle((ncclComm_t)(uintptr_t)0x1234);
  bad_handle((ncclComm_t)((char*)comms[0] + 1));
  bad_one_sided(comms);
  bad_stream(comms[0], (cudaStream_t)garbage);
  bad_stream(comms[0], (cudaStream_t)(uintptr_t)0x1234);
  bad_stream(comms[0], (cudaStream_t)(uintptr_t)0x7777777777777778);
  /* A call that fails makes the group's end fail and run nothing. */
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comms[0], NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, (ncclDataType_t)99, ncclSum, comms[1], NULL));
  EXPECT(ncclInvalidArgument, api.ncclGroupEnd());
  destroy_in_group(comms[0]);
  SUCCEED(api.ncclCommRevoke(comms[0], 0));
  EXPECT(ncclInvalidUsage, api.ncclCommRevoke(comms[0], 0));
  EXPECT(ncclInvalidUsage, api.ncclCommFinalize(comms[0]));
  EXPECT(ncclRemoteError, api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comms[0], NULL));
  SUCCEED(api.ncclCommAbort(comms[0]));
  bad_handle(comms[0]);
  EXPECT(ncclRemoteError, api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comms[1], NULL));
  SUCCEED(api.ncclCommAbort(comms[1]));
}
