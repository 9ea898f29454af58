/* The client's device memory, streams and graphs, by the functions of a CUDA driver that is found at run time. */
#include <dlfcn.h>
#include <stdlib.h>

#include "client.h"

typedef unsigned long long pointer;
typedef void* handle;

/* clang-format off */
#define CUDA(X) \
  X(cuInit, (unsigned)) X(cuDeviceGetCount, (int*)) X(cuDeviceGet, (int*, int)) \
  X(cuDevicePrimaryCtxRetain, (handle*, int)) X(cuCtxSetCurrent, (handle)) X(cuStreamCreate, (handle*, unsigned)) \
  X(cuStreamSynchronize, (handle)) X(cuMemAlloc_v2, (pointer*, size_t)) \
  X(cuMemcpyHtoDAsync_v2, (pointer, const void*, size_t, handle)) \
  X(cuMemcpyDtoHAsync_v2, (void*, pointer, size_t, handle)) X(cuStreamBeginCapture_v2, (handle, int)) \
  X(cuStreamEndCapture, (handle, handle*)) X(cuGraphInstantiateWithFlags, (handle*, handle, unsigned long long)) \
  X(cuGraphLaunch, (handle, handle)) X(cuGraphExecDestroy, (handle)) X(cuGraphDestroy, (handle))
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
  handle stream;
  pointer memory;
} mine;

void device_load(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) exit(fprintf(stderr, "%s\n", dlerror()));
#define FIND(name, parameters) *(void**)&name = dlsym(driver, #name);
  CUDA(FIND)
  CUDA_CHECK(cuInit(0));
}

void device_use(int rank) {
  int devices = 0, device = 0;
  handle context = NULL;
  CUDA_CHECK(cuDeviceGetCount(&devices));
  CUDA_CHECK(cuDeviceGet(&device, rank % devices));
  CUDA_CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CUDA_CHECK(cuCtxSetCurrent(context));
  CUDA_CHECK(cuStreamCreate(&mine.stream, 1)); /* it waits for no default stream */
  CUDA_CHECK(cuMemAlloc_v2(&mine.memory, DEVICE_BYTES));
}

cudaStream_t device_stream(void) { return (cudaStream_t)mine.stream; }
char* device_memory(void) { return (char*)mine.memory; }

void device_put(size_t at, const void* from, size_t bytes) {
  CUDA_CHECK(cuMemcpyHtoDAsync_v2(mine.memory + at, from, bytes, mine.stream));
  device_finish();
}
void device_get(void* to, size_t at, size_t bytes) {
  CUDA_CHECK(cuMemcpyDtoHAsync_v2(to, mine.memory + at, bytes, mine.stream));
  device_finish();
}
void device_finish(void) { CUDA_CHECK(cuStreamSynchronize(mine.stream)); }

void device_capture(void) { CUDA_CHECK(cuStreamBeginCapture_v2(mine.stream, 1)); /* of this thread */ }
void device_replay(void) {
  handle graph = NULL, runnable = NULL;
  CUDA_CHECK(cuStreamEndCapture(mine.stream, &graph));
  CUDA_CHECK(cuGraphInstantiateWithFlags(&runnable, graph, 0));
  CUDA_CHECK(cuGraphLaunch(runnable, mine.stream));
  device_finish();
  CUDA_CHECK(cuGraphExecDestroy(runnable));
  CUDA_CHECK(cuGraphDestroy(graph));
}
