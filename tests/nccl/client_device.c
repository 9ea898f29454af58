/* The client's device memory, streams and graphs, by the functions of a CUDA driver that is found at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "client.h"

typedef unsigned long long pointer;
typedef void* handle;

/* clang-format off */
#define CUDA(X) \
  X(cuInit, (unsigned)) X(cuDeviceGetCount, (int*)) X(cuDeviceGet, (int*, int)) \
  X(cuDevicePrimaryCtxRetain, (handle*, int)) X(cuDevicePrimaryCtxRelease_v2, (int)) \
  X(cuDevicePrimaryCtxGetState, (int, unsigned*, int*)) X(cuCtxSetCurrent, (handle)) X(cuStreamCreate, (handle*, unsigned)) \
  X(cuStreamSynchronize, (handle)) X(cuMemAlloc_v2, (pointer*, size_t)) \
  X(cuMemcpyHtoDAsync_v2, (pointer, const void*, size_t, handle)) \
  X(cuMemcpyDtoHAsync_v2, (void*, pointer, size_t, handle)) X(cuStreamBeginCapture_v2, (handle, int)) \
  X(cuStreamEndCapture, (handle, handle*)) X(cuGraphInstantiateWithFlags, (handle*, handle, unsigned long long)) \
  X(cuGraphLaunch, (handle, handle)) X(cuGraphExecDestroy, (handle)) X(cuGraphDestroy, (handle)) \
  X(cuMemFree_v2, (pointer)) X(cuStreamDestroy_v2, (handle)) X(cuEventCreate, (handle*, unsigned)) \
  X(cuEventRecord, (handle, handle)) X(cuStreamWaitEvent, (handle, handle, unsigned)) X(cuEventQuery, (handle))
/* clang-format on */
#define DECLARE(name, parameters) static int(*name) parameters;
CUDA(DECLARE)

#define CUDA_CHECK(call)                                                      \
  do {                                                                        \
    const int result_ = (call);                                               \
    if (result_ != 0) {                                                       \
      fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, result_); \
      exit(3);                                                                \
    }                                                                         \
  } while (0)

static __thread struct {
  handle stream, graph;
  pointer memory;
} mine;

void device_load(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) exit(fprintf(stderr, "%s\n", dlerror()));
#define FIND(name, parameters) *(void**)&name = dlsym(driver, #name);
  CUDA(FIND)
  CUDA_CHECK(cuInit(0));
}

int device_count(void) {
  int devices = 0;
  CUDA_CHECK(cuDeviceGetCount(&devices));
  return devices;
}

void device_select(int number) {
  int device = 0;
  handle context = NULL;
  CUDA_CHECK(cuDeviceGet(&device, number));
  CUDA_CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CUDA_CHECK(cuCtxSetCurrent(context));
}

int device_holds_once(int number) {
  unsigned flags = 0;
  int active[2] = {0, 0};
  handle context = NULL;
  CUDA_CHECK(cuDevicePrimaryCtxGetState(number, &flags, &active[0]));
  if (active[0] == 0) return 0;
  CUDA_CHECK(cuDevicePrimaryCtxRelease_v2(number));
  CUDA_CHECK(cuDevicePrimaryCtxGetState(number, &flags, &active[1]));
  CUDA_CHECK(cuDevicePrimaryCtxRetain(&context, number)); /* as it was */
  return active[1] == 0;
}

void device_use(int rank) {
  device_select(rank % device_count());
  CUDA_CHECK(cuStreamCreate(&mine.stream, 1)); /* it waits for no default stream */
  CUDA_CHECK(cuMemAlloc_v2(&mine.memory, DEVICE_BYTES));
}

cudaStream_t device_stream(void) { return (cudaStream_t)mine.stream; }
char* device_memory(void) { return (char*)mine.memory; }

void device_put_at(char* to, const void* from, size_t bytes, cudaStream_t stream) {
  CUDA_CHECK(cuMemcpyHtoDAsync_v2((pointer)to, from, bytes, (handle)stream));
  CUDA_CHECK(cuStreamSynchronize((handle)stream));
}
void device_get_at(void* to, const char* from, size_t bytes, cudaStream_t stream) {
  CUDA_CHECK(cuMemcpyDtoHAsync_v2(to, (pointer)from, bytes, (handle)stream));
  CUDA_CHECK(cuStreamSynchronize((handle)stream));
}
void device_put(size_t at, const void* from, size_t bytes) {
  device_put_at(device_memory() + at, from, bytes, device_stream());
}
void device_get(void* to, size_t at, size_t bytes) { device_get_at(to, device_memory() + at, bytes, device_stream()); }
void device_finish(void) { CUDA_CHECK(cuStreamSynchronize(mine.stream)); }

void device_finish_stream(cudaStream_t stream) { CUDA_CHECK(cuStreamSynchronize((handle)stream)); }

char* device_allocate(size_t bytes) {
  pointer memory = 0;
  CUDA_CHECK(cuMemAlloc_v2(&memory, bytes));
  return (char*)memory;
}
void device_free(char* memory) { CUDA_CHECK(cuMemFree_v2((pointer)memory)); }
cudaStream_t device_new_stream(void) {
  handle stream = NULL;
  CUDA_CHECK(cuStreamCreate(&stream, 1));
  return (cudaStream_t)stream;
}
void device_destroy_stream(cudaStream_t stream) { CUDA_CHECK(cuStreamDestroy_v2((handle)stream)); }

void* device_event(void) {
  handle event = NULL;
  CUDA_CHECK(cuEventCreate(&event, 2)); /* without its time */
  return event;
}
void device_record(void* event, cudaStream_t stream) { CUDA_CHECK(cuEventRecord(event, (handle)stream)); }
void device_wait(cudaStream_t stream, void* event) { CUDA_CHECK(cuStreamWaitEvent((handle)stream, event, 0)); }
int device_reached(void* event) {
  const int result = cuEventQuery(event);
  if (result != 600) CUDA_CHECK(result); /* not ready */
  return result == 0;
}
void device_nap(void) {
  const struct timespec turn = {0, 2000000};
  nanosleep(&turn, NULL);
}

void device_capture(void) { CUDA_CHECK(cuStreamBeginCapture_v2(mine.stream, 1)); /* of this thread */ }
void device_hold(void) { CUDA_CHECK(cuStreamEndCapture(mine.stream, &mine.graph)); }
void device_replay(void) {
  handle runnable = NULL;
  if (mine.graph == NULL) device_hold();
  const handle graph = mine.graph;
  mine.graph = NULL;
  CUDA_CHECK(cuGraphInstantiateWithFlags(&runnable, graph, 0));
  pthread_barrier_wait(&shared->barrier); /* instantiating may wait for kernels of other ranks */
  CUDA_CHECK(cuGraphLaunch(runnable, mine.stream));
  device_finish();
  CUDA_CHECK(cuGraphExecDestroy(runnable));
  CUDA_CHECK(cuGraphDestroy(graph));
}
