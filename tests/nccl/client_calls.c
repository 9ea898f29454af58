/* Calls that need no other data than their own: operators, memory, groups, default streams. */
#include <stdlib.h>

#include "client.h"

void operators(struct self self, ncclComm_t comm) {
  ncclRedOp_t op, live;
  float scalar = 2, in = 3, out = 0;
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
  SUCCEED(api.ncclRedOpCreatePreMulSum(&live, &scalar, ncclFloat, ncclScalarDevice, comm));
  scalar = 10;
  SUCCEED(api.ncclAllReduce(&in, &out, 1, ncclFloat, op, comm, NULL));
  REQUIRE(out == 6.0f * (float)self.ranks);
  SUCCEED(api.ncclAllReduce(&in, &out, 1, ncclFloat, live, comm, NULL));
  REQUIRE(out == 30.0f * (float)self.ranks);
  SUCCEED(api.ncclRedOpDestroy(op, comm));
  SUCCEED(api.ncclRedOpDestroy(live, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy(live, comm));
}

static void check_window(ncclComm_t comm, ncclWindow_t window, void* buffer) {
  void* user = NULL;
  if (window == NULL) {
    EXPECT(ncclInvalidArgument, api.ncclWinGetUserPtr(comm, window, &user));
    return;
  }
  SUCCEED(api.ncclWinGetUserPtr(comm, window, &user));
  REQUIRE(user == buffer);
  EXPECT(ncclInvalidArgument, api.ncclWinGetUserPtr(comm, window, NULL));
}

void memory(struct self self, ncclComm_t comm) {
  void *block = NULL, *handle = &self, *user = NULL;
  uint64_t bytes = 77;
  ncclWindow_t window = (ncclWindow_t)&self;
  SUCCEED(api.ncclMemAlloc(&block, 1 << 20));
  SUCCEED(api.ncclCommRegister(comm, block, 1 << 20, &handle));
  SUCCEED(api.ncclCommWindowRegister(comm, block, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
  REQUIRE((handle == NULL && window != NULL) || on_device); /* NULL where nothing is gained */
  check_window(comm, window, block);
  SUCCEED(api.ncclCommWindowDeregister(comm, window));
  SUCCEED(api.ncclCommDeregister(comm, handle));
  SUCCEED(api.ncclGroupStart()); /* as nccl-tests do */
  SUCCEED(api.ncclCommWindowRegister(comm, block, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
  SUCCEED(api.ncclGroupEnd());
  check_window(comm, window, block);
  SUCCEED(api.ncclCommWindowDeregister(comm, window));
  if (window != NULL) EXPECT(ncclInvalidArgument, api.ncclWinGetUserPtr(comm, window, &user)); /* it is none any more */
  pthread_barrier_wait(
      &shared->barrier); /* freeing memory of a GPU waits for its kernels, also for those of other ranks */
  SUCCEED(api.ncclMemFree(block));
  pthread_barrier_wait(&shared->barrier);
  EXPECT(on_device ? ncclInvalidUsage : ncclSuccess, api.ncclCommMemStats(comm, 3, &bytes));
  REQUIRE(bytes == 0);
}

void groups(struct self self, ncclComm_t a, ncclComm_t b) {
  int in[2] = {1, 2}, out[2] = {0, 0};
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[0], &out[0], 1, ncclInt, ncclSum, a, NULL));
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[1], &out[1], 1, ncclInt, ncclSum, b, NULL));
  SUCCEED(api.ncclGroupEnd());
  REQUIRE(out[1] == 0); /* the outermost end runs it */
  SUCCEED(api.ncclGroupEnd());
  REQUIRE(out[0] == self.ranks && out[1] == 2 * self.ranks);
  out[0] = 0;
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(&in[0], &out[0], 1, ncclInt, ncclSum, a, NULL));
  SUCCEED(api.ncclGroupSimulateEnd(&info));
  REQUIRE(info.estimatedTime > 0 && out[0] == 0);
}

/* Of two communicators, in one group, on one stream. */
void device_groups(struct self self, ncclComm_t a, ncclComm_t b) {
  const int in[2] = {1, 2};
  int out[2] = {0, 0};
  char* const memory = device_memory();
  device_put(0, in, sizeof in);
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(memory, memory + 64, 1, ncclInt, ncclSum, a, device_stream()));
  SUCCEED(api.ncclAllReduce(memory + 4, memory + 68, 1, ncclInt, ncclSum, b, device_stream()));
  SUCCEED(api.ncclGroupEnd());
  device_get(out, 64, sizeof out);
  REQUIRE(out[0] == self.ranks && out[1] == 2 * self.ranks);
}

/* A scalar in device memory has the value that it has when the call runs, also in a graph that is replayed. */
void device_scalar(struct self self, ncclComm_t comm) {
  ncclRedOp_t op;
  const float input = 3;
  float scalar = 0, out = 0;
  char* const memory = device_memory();
  device_put(0, &scalar, sizeof scalar);
  device_put(64, &input, sizeof input);
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, memory, ncclFloat, ncclScalarDevice, comm));
  scalar = 2;
  device_put(0, &scalar, sizeof scalar);
  SUCCEED(api.ncclAllReduce(memory + 64, memory + 128, 1, ncclFloat, op, comm, device_stream()));
  device_get(&out, 128, sizeof out);
  REQUIRE(out == 6.0f * (float)self.ranks);
  device_capture();
  SUCCEED(api.ncclAllReduce(memory + 64, memory + 128, 1, ncclFloat, op, comm, device_stream()));
  scalar = 5;
  device_hold();
  device_put(0, &scalar, sizeof scalar);
  device_replay();
  device_get(&out, 128, sizeof out);
  REQUIRE(out == 15.0f * (float)self.ranks);
  SUCCEED(api.ncclRedOpDestroy(op, comm));
  EXPECT(ncclInvalidArgument, api.ncclRedOpDestroy(op, comm));
}

/* CUDA's default streams, by their three names. Not where ranks share a GPU and its default stream: the first one's
   call waits there for the second one's, which is behind it. */
void default_streams(struct self self, ncclComm_t comm) {
  for (uintptr_t name = 0; name <= 2; ++name) {
    const cudaStream_t stream = (cudaStream_t)name;
    const int mine = self.rank + 1;
    int sum = 0;
    device_put(0, &mine, sizeof mine);
    SUCCEED(api.ncclAllReduce(device_memory(), device_memory() + 64, 1, ncclInt, ncclSum, comm, stream));
    device_finish_stream(stream);
    device_get(&sum, 64, sizeof sum);
    REQUIRE(sum == self.ranks * (self.ranks + 1) / 2);
  }
}
