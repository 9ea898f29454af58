/* Wrong arguments with memory of GPUs: refused before anything is launched. Two GPUs, one rank on each, one thread. */
#include <stdint.h>

#include "client.h"

static float host[64];

static void bad_buffers(ncclComm_t comm, char* own, char* other) {
  const cudaStream_t stream = device_stream();
  const size_t floats = DEVICE_BYTES / sizeof(float);
  char* const freed = device_allocate(4096);
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, NULL, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(NULL, own, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, floats + 1, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, SIZE_MAX / 2, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own + 2, own + 2, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(host, own, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, host, 8, ncclFloat, ncclSum, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(host, host, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(other, other, 8, ncclFloat, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllGather(own, own, floats, ncclFloat, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclBroadcast(own, own, 8, ncclFloat, 2, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclSend(own, 8, ncclFloat, -1, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclRecv(own, floats + 1, ncclFloat, 0, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, (ncclDataType_t)12, ncclSum, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, (ncclRedOp_t)5, comm, stream));
  EXPECT(ncclInvalidArgument, api.ncclMemFree(own)); /* not of ncclMemAlloc */
  device_free(freed);
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(freed, freed, 8, ncclFloat, ncclSum, comm, stream));
}

static void bad_streams(ncclComm_t comm, char* own, cudaStream_t other) {
  const cudaStream_t gone = device_new_stream();
  device_destroy_stream(gone);
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, ncclSum, comm, gone));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, ncclSum, comm, other));
}

static void bad_scalars(ncclComm_t comm, char* own, char* other) {
  ncclRedOp_t op;
  const cudaStream_t stream = device_stream();
  EXPECT(ncclInvalidArgument, api.ncclRedOpCreatePreMulSum(&op, own, ncclFloat, ncclScalarHostImmediate, comm));
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, own, ncclFloat, ncclScalarDevice, comm));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(host, host, 8, ncclFloat, op, comm, NULL));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclDouble, op, comm, stream));
  SUCCEED(api.ncclRedOpDestroy(op, comm));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, op, comm, stream));
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, own + 2, ncclFloat, ncclScalarDevice, comm));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, op, comm, stream));
  SUCCEED(api.ncclRedOpCreatePreMulSum(&op, other, ncclFloat, ncclScalarDevice, comm));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(own, own, 8, ncclFloat, op, comm, stream));
}

/* A group of one thread's calls for all its GPUs, as programs of one process make them. */
static void one_thread(ncclComm_t comms[2], char* memory[2], cudaStream_t streams[2]) {
  int sum = 0;
  for (int i = 0; i < 2; ++i) {
    const int value = i + 5;
    device_select(i);
    device_put_at(memory[i], &value, sizeof value, streams[i]);
  }
  SUCCEED(api.ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    SUCCEED(api.ncclAllReduce(memory[i], memory[i] + 64, 1, ncclInt, ncclSum, comms[i], streams[i]));
  SUCCEED(api.ncclGroupEnd());
  for (int i = 0; i < 2; ++i) {
    device_select(i);
    device_get_at(&sum, memory[i] + 64, sizeof sum, streams[i]);
    REQUIRE(sum == 11);
  }
}

void bad_device_input(void) {
  ncclComm_t comms[2] = {NULL, NULL}, many[3] = {NULL, NULL, NULL};
  const int devices[2] = {0, 1}, wrong[2] = {0, 7};
  int device = -1;
  char* memory[2];
  cudaStream_t streams[2];
  ncclResult_t state;
  for (int i = 1; i >= 0; --i) {
    device_use(i);
    memory[i] = device_memory();
    streams[i] = device_stream();
  }
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(many, 3, NULL)); /* there are two */
  EXPECT(ncclInvalidArgument, api.ncclCommInitAll(comms, 2, wrong));
  REQUIRE(comms[0] == NULL && many[0] == NULL);
  SUCCEED(api.ncclCommInitAll(comms, 2, devices));
  for (int i = 0; i < 2; ++i) {
    SUCCEED(api.ncclCommCuDevice(comms[i], &device));
    REQUIRE(device == i);
  }
  one_thread(comms, memory, streams);
  device_select(0);
  bad_buffers(comms[0], memory[0], memory[1]);
  bad_streams(comms[0], memory[0], streams[1]);
  bad_scalars(comms[0], memory[0], memory[1]);
  one_thread(comms, memory, streams); /* still usable */
  SUCCEED(api.ncclGroupStart());
  SUCCEED(api.ncclAllReduce(memory[0], memory[0], 8, ncclFloat, ncclSum, comms[0], streams[0]));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(memory[1], host, 8, ncclFloat, ncclSum, comms[1], streams[1]));
  EXPECT(ncclInvalidArgument, api.ncclGroupEnd());
  one_thread(comms, memory, streams);
  SUCCEED(api.ncclCommAbort(comms[0]));
  EXPECT(ncclInvalidArgument, api.ncclAllReduce(memory[0], memory[0], 8, ncclFloat, ncclSum, comms[0], streams[0]));
  EXPECT(ncclRemoteError, api.ncclAllReduce(memory[1], memory[1], 8, ncclFloat, ncclSum, comms[1], streams[1]));
  SUCCEED(api.ncclCommGetAsyncError(comms[1], &state));
  REQUIRE(state == ncclRemoteError);
  SUCCEED(api.ncclCommAbort(comms[1]));
}

static void* take_first_device(void* unused) {
  void* block = NULL;
  (void)unused;
  EXPECT(ncclInvalidUsage, api.ncclMemAlloc(&block, 4096));
  return NULL;
}

/* Threads that have chosen no device have the first one: the library holds it once, and not once for each of them. */
static void threads_without_device(void) {
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, take_first_device, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
  }
  REQUIRE(device_holds_once(0));
}

/* Where Tutti cannot use GPUs, it says so, on CUDA's default streams too. */
void refused_device_memory(void) {
  ncclComm_t comm = NULL;
  void* block = NULL;
  threads_without_device();
  device_use(0);
  SUCCEED(api.ncclCommInitAll(&comm, 1, NULL));
  for (uintptr_t stream = 0; stream <= 3; ++stream) {
    const cudaStream_t on = stream == 3 ? device_stream() : (cudaStream_t)stream;
    EXPECT(ncclInvalidArgument, api.ncclAllReduce(device_memory(), device_memory(), 8, ncclFloat, ncclSum, comm, on));
    REQUIRE(strstr(api.ncclGetLastError(comm), "the module cuda") != NULL);
  }
  EXPECT(ncclInvalidUsage, api.ncclMemAlloc(&block, 4096));
  SUCCEED(api.ncclAllReduce(host, host, 8, ncclFloat, ncclSum, comm, NULL));
  SUCCEED(api.ncclCommDestroy(comm));
}
