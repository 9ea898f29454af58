#include "tools/perf/gpu.hpp"

#include <dlfcn.h>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

// The part of the driver's interface that is used, which NVIDIA keeps binary compatible.
using Result = int;  // 0: success
using Address = unsigned long long;
constexpr Result kOutOfMemory = 2;
constexpr unsigned kNonBlocking = 1;
constexpr int kThreadLocalCapture = 1;

/// The driver's library, which stays loaded.
void* driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw_error(Code::Unsupported, "--device cuda: NVIDIA's driver is not here: {}", ::dlerror());
  return library;
}

/// A function of the driver, as the pointer that it initialises.
struct Named {
  const char* name;
  template <class Function>
  operator Function*() const {  // NOLINT(google-explicit-constructor): it is the function
    auto* const function = reinterpret_cast<Function*>(::dlsym(driver(), name));
    if (function == nullptr) throw_error(Code::Unsupported, "--device cuda: NVIDIA's driver lacks {}", name);
    return function;
  }
};

struct Functions {
  Result (*init)(unsigned) = Named{"cuInit"};
  Result (*count)(int*) = Named{"cuDeviceGetCount"};
  Result (*device)(int*, int) = Named{"cuDeviceGet"};
  Result (*retain)(void**, int) = Named{"cuDevicePrimaryCtxRetain"};
  Result (*set_current)(void*) = Named{"cuCtxSetCurrent"};
  Result (*allocate)(Address*, size_t) = Named{"cuMemAlloc_v2"};
  Result (*upload)(Address, const void*, size_t, void*) = Named{"cuMemcpyHtoDAsync_v2"};
  Result (*download)(void*, Address, size_t, void*) = Named{"cuMemcpyDtoHAsync_v2"};
  Result (*make_stream)(void**, unsigned) = Named{"cuStreamCreate"};
  Result (*end_stream)(void*) = Named{"cuStreamDestroy_v2"};
  Result (*synchronize)(void*) = Named{"cuStreamSynchronize"};
  Result (*begin_capture)(void*, int) = Named{"cuStreamBeginCapture_v2"};
  Result (*end_capture)(void*, void**) = Named{"cuStreamEndCapture"};
  Result (*instantiate)(void**, void*, unsigned long long) = Named{"cuGraphInstantiateWithFlags"};
  Result (*launch)(void*, void*) = Named{"cuGraphLaunch"};
  Result (*drop_graph)(void*) = Named{"cuGraphDestroy"};
  Result (*drop_runnable)(void*) = Named{"cuGraphExecDestroy"};
  Result (*name)(Result, const char**) = Named{"cuGetErrorName"};
};

const Functions& cuda() {
  static const Functions kFunctions;
  return kFunctions;
}

void check(Result result, const char* what) {
  if (result == 0) return;
  const char* name = nullptr;
  cuda().name(result, &name);
  throw_error(result == kOutOfMemory ? Code::OutOfMemory : Code::SystemError, "{}: {}", what,
              name == nullptr ? "an unknown error" : name);
}

}  // namespace

void Gpu::use(int number) {
  int count = 0, device = 0;
  void* context = nullptr;
  check(cuda().init(0), "--device cuda: the driver cannot start");
  check(cuda().count(&count), "GPUs cannot be counted");
  if (count == 0) throw_error(Code::Unsupported, "--device cuda: there is no GPU here");
  check(cuda().device(&device, number % count), "the GPU cannot be used");
  check(cuda().retain(&context, device), "the GPU cannot be used");
  check(cuda().set_current(context), "the GPU cannot be used");
}

Gpu::Gpu() { check(cuda().make_stream(&stream_, kNonBlocking), "a stream cannot be made"); }

/// The buffers end with the process: freeing memory waits for all kernels, also those of other ranks.
Gpu::~Gpu() {
  drop_graph();
  cuda().end_stream(stream_);
}

void* Gpu::allocate(size_t bytes) {
  Address memory = 0;
  check(cuda().allocate(&memory, bytes), "memory of the GPU");
  return reinterpret_cast<void*>(memory);
}

void Gpu::upload(void* to, const void* from, size_t bytes) {
  check(cuda().upload(reinterpret_cast<Address>(to), from, bytes, stream_), "memory of the GPU cannot be written");
  synchronize();
}

void Gpu::download(void* to, const void* from, size_t bytes) {
  check(cuda().download(to, reinterpret_cast<Address>(from), bytes, stream_), "memory of the GPU cannot be read");
  synchronize();
}

void Gpu::synchronize() { check(cuda().synchronize(stream_), "work on the GPU has failed"); }

void Gpu::capture(const std::function<void()>& calls) {
  drop_graph();
  check(cuda().begin_capture(stream_, kThreadLocalCapture), "a graph cannot be captured");
  calls();
  check(cuda().end_capture(stream_, &graph_), "the capture was invalidated");
  check(cuda().instantiate(&runnable_, graph_, 0), "the graph cannot be made runnable");
}

void Gpu::replay(int times) {
  for (int i = 0; i < times; ++i) check(cuda().launch(runnable_, stream_), "the graph cannot be launched");
}

void Gpu::drop_graph() {
  if (runnable_ != nullptr) cuda().drop_runnable(runnable_);
  if (graph_ != nullptr) cuda().drop_graph(graph_);
  graph_ = runnable_ = nullptr;
}

}  // namespace tutti::tools
