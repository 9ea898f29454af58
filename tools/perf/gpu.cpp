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

struct Functions {
  Result (*init)(unsigned) = nullptr;
  Result (*count)(int*) = nullptr;
  Result (*device)(int*, int) = nullptr;
  Result (*retain)(void**, int) = nullptr;
  Result (*set_current)(void*) = nullptr;
  Result (*allocate)(Address*, size_t) = nullptr;
  Result (*upload)(Address, const void*, size_t, void*) = nullptr;
  Result (*download)(void*, Address, size_t, void*) = nullptr;
  Result (*make_stream)(void**, unsigned) = nullptr;
  Result (*end_stream)(void*) = nullptr;
  Result (*synchronize)(void*) = nullptr;
  Result (*begin_capture)(void*, int) = nullptr;
  Result (*end_capture)(void*, void**) = nullptr;
  Result (*instantiate)(void**, void*, unsigned long long) = nullptr;
  Result (*launch)(void*, void*) = nullptr;
  Result (*drop_graph)(void*) = nullptr;
  Result (*drop_runnable)(void*) = nullptr;
  Result (*name)(Result, const char**) = nullptr;
};

Functions load() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw_error(Code::Unsupported, "--device cuda: NVIDIA's driver is not here: {}", ::dlerror());
  Functions found;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) throw_error(Code::Unsupported, "--device cuda: NVIDIA's driver lacks {}", name);
  };
  find("cuInit", found.init);
  find("cuDeviceGetCount", found.count);
  find("cuDeviceGet", found.device);
  find("cuDevicePrimaryCtxRetain", found.retain);
  find("cuCtxSetCurrent", found.set_current);
  find("cuMemAlloc_v2", found.allocate);
  find("cuMemcpyHtoDAsync_v2", found.upload);
  find("cuMemcpyDtoHAsync_v2", found.download);
  find("cuStreamCreate", found.make_stream);
  find("cuStreamDestroy_v2", found.end_stream);
  find("cuStreamSynchronize", found.synchronize);
  find("cuStreamBeginCapture_v2", found.begin_capture);
  find("cuStreamEndCapture", found.end_capture);
  find("cuGraphInstantiateWithFlags", found.instantiate);
  find("cuGraphLaunch", found.launch);
  find("cuGraphDestroy", found.drop_graph);
  find("cuGraphExecDestroy", found.drop_runnable);
  find("cuGetErrorName", found.name);
  return found;
}

const Functions& cuda() {
  static const Functions kFunctions = load();
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
  check(cuda().end_capture(stream_, &graph_), "the graph was spoilt");
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
