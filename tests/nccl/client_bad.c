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

static void bad_handle(ncclComm_t comm) {
  int number;
  ncclComm_t made = NULL;
  ncclResult_t state;
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommCount(comm, &number));
  EXPECT(ncclInvalidArgument, api.ncclCommGetAsyncError(comm, &state));
  EXPECT(ncclInvalidArgument, api.ncclCommFinalize(comm));
  EXPECT(ncclInvalidArgument, api.ncclCommSplit(comm, 0, 0, &made, NULL));
  if (comm != NULL) {
    EXPECT(ncclInvalidArgument, api.ncclCommDestroy(comm));
    EXPECT(ncclInvalidArgument, api.ncclCommAbort(comm));
  }
}

static void bad_joining(void) {
  ncclComm_t comm = NULL;
  ncclUniqueId id, zeros;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER, blank;
  memset(&zeros, 0, sizeof zeros);
  memset(&blank, 0, sizeof blank);
  EXPECT(ncclInvalidArgument, api.ncclGetUniqueId(NULL));
  EXPECT(ncclInvalidArgument, api.ncclGetVersion(NULL));
  SUCCEED(api.ncclGetUniqueId(&id));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(NULL, 1, id, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 1, zeros, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 1, id, 1));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 0, id, 0));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRank(&comm, 2, id, -1));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &blank));
  config.blocking = 7;
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankScalable(&comm, 1, 0, 0, &id, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(NULL, 1, NULL));
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(&comm, 0, NULL));
  REQUIRE(comm == NULL);
  EXPECT(ncclInvalidUsage, api.ncclGroupEnd());
}

void bad_input(void) {
  ncclComm_t comms[2] = {NULL, NULL};
  char garbage[256];
  memset(garbage, 0xa5, sizeof garbage);
  bad_joining();
  SUCCEED(api.ncclCommInitAll(comms, 2, NULL));
  bad_arguments(comms[0]);
  bad_handle(NULL);
  bad_handle((ncclComm_t)garbage);
  bad_handle((ncclComm_t)(uintptr_t)0x1234);
  bad_handle((ncclComm_t)((char*)comms[0] + 1));
  /* A call that fails makes the group's end fail and run nothing. */
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comms[0], NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(in, out, 8, (ncclDataType_t)99, ncclSum, comms[1], NULL));
  EXPECT(ncclInvalidArgument, api.ncclGroupEnd());
  SUCCEED(api.ncclCommAbort(comms[0]));
  bad_handle(comms[0]);
  EXPECT(ncclRemoteError, api.ncclAllReduce(in, out, 8, ncclFloat, ncclSum, comms[1], NULL));
  SUCCEED(api.ncclCommAbort(comms[1]));
}
