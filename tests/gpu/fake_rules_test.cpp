// What real drivers may do, and the fake does when it is asked to (FAKE_CUDA_RULES); and green contexts.
#include <atomic>
#include <chrono>
#include <thread>

#include "on_fake.hpp"

extern "C" uint64_t fake_cuda_calls(const char* name);
extern "C" uint64_t fake_cuda_draining_calls();

/// CUDA 12.4's cuda.h does not have it.
extern "C" CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);

namespace tutti::test {
namespace {

constexpr size_t kHandle = 2 << 20;

/// A word of host memory that kernels wait for, and one that they count in.
struct Gate {
  uint64_t* words = host_memory(2);
  SampleWait arguments() const { return {words, 1, words + 1}; }
  void open() const { std::atomic_ref(words[0]).store(1); }
  uint64_t passed() const { return std::atomic_ref(words[1]).load(); }
};

/// Does `call` return while a kernel waits for the gate? The gate is open afterwards.
template <class Body>
bool returns_beside(const Gpu& gpu, const Gate& gate, Body call) {
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, new_stream()));
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    gpu.use();
    call();
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nothing tells that a call waits
  const bool in_time = returned;
  gate.open();
  thread.join();
  return in_time;
}

void allocate() {
  CUdeviceptr at = 0;
  CHECK_CUDA(cuMemAlloc(&at, 64));
}

ON_FAKE(FakeRules, areOffUnlessTheyAreAskedFor, "") {
  Gpu gpu;
  EXPECT_TRUE(returns_beside(gpu, Gate(), allocate));
}

ON_FAKE(FakeRules, drainBeforeMemoryIsAllocated, "FAKE_CUDA_RULES=drain") {
  Gpu gpu;
  EXPECT_FALSE(returns_beside(gpu, Gate(), allocate));
}

ON_FAKE(FakeRules, drainOtherDevicesToo, "FAKE_CUDA_RULES=drain FAKE_CUDA_DEVICES=2") {
  Gpu other(1), gpu(0);
  EXPECT_FALSE(returns_beside(gpu, Gate(), [&] {
    other.use();
    allocate();
  }));
}

ON_FAKE(FakeRules, drainBeforeMemoryIsPinnedRegisteredOrMapped, "FAKE_CUDA_RULES=drain") {
  Gpu gpu;
  EXPECT_FALSE(returns_beside(gpu, Gate(), [] { host_memory(1); }));
  static uint64_t words[512];
  EXPECT_FALSE(returns_beside(gpu, Gate(), [] { CHECK_CUDA(cuMemHostRegister(words, sizeof words, 0)); }));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, kHandle, &properties, 0));
  CUdeviceptr at = 0;
  CHECK_CUDA(cuMemAddressReserve(&at, kHandle, 0, 0, 0));
  EXPECT_FALSE(returns_beside(gpu, Gate(), [&] { CHECK_CUDA(cuMemMap(at, kHandle, 0, handle, 0)); }));
}

ON_FAKE(FakeRules, drainBeforeAGraphIsInstantiated, "FAKE_CUDA_RULES=drain") {
  Gpu gpu;
  const CUstream stream = new_stream();
  CHECK_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CUDA(cuMemsetD8Async(address(device_memory(1)), 1, 4, stream));
  CUgraph graph = nullptr;
  CHECK_CUDA(cuStreamEndCapture(stream, &graph));
  CUgraphExec executable = nullptr;
  EXPECT_FALSE(returns_beside(gpu, Gate(), [&] { CHECK_CUDA(cuGraphInstantiate(&executable, graph, 0)); }));
}

ON_FAKE(FakeRules, drainForNoLaunchCopyOrEvent, "FAKE_CUDA_RULES=drain") {
  Gpu gpu;
  const Gate gate, open;
  open.open();
  const CUstream stream = new_stream();
  uint32_t* const words = device_memory(4);
  const uint64_t before = fake_cuda_draining_calls();
  EXPECT_TRUE(returns_beside(gpu, gate, [&] {
    CUevent event = nullptr;
    CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK_CUDA(gpu.launch("sample_wait", open.arguments(), 1, 1, stream));
    CHECK_CUDA(cuMemcpyAsync(address(words), address(words + 2), 8, stream));
    CHECK_CUDA(cuEventRecord(event, stream));
    CHECK_CUDA(cuEventSynchronize(event));
  }));
  EXPECT_EQ(fake_cuda_draining_calls(), before);
  allocate();
  EXPECT_EQ(fake_cuda_draining_calls(), before + 1);
}

// A thousand items, and the one that waits.
ON_FAKE(FakeRules, boundTheLengthOfAQueue, "FAKE_CUDA_RULES=queue") {
  Gpu gpu;
  const Gate gate;
  const CUstream stream = new_stream();
  uint32_t* const words = device_memory(1);
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, stream));
  for (int i = 1; i < 1024; ++i) CHECK_CUDA(cuMemsetD32Async(address(words), i, 1, stream));
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    gpu.use();
    CHECK_CUDA(cuMemsetD32Async(address(words), 5, 1, stream));
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as above
  EXPECT_FALSE(returned);
  gate.open();
  thread.join();
  CHECK_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(read_back(words), 5U);
}

ON_FAKE_FAILS(FakeRules, thatDoNotExistAreRefused, "FAKE_CUDA_RULES=drain,quue", "there is no rule 'quue'") { Gpu gpu; }

/// A green context with the first multiprocessors of device 0.
CUgreenCtx green_context(unsigned multiprocessors) {
  CUdevResource all{}, some{};
  unsigned groups = 1;
  CHECK_CUDA(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  CHECK_CUDA(cuDevSmResourceSplitByCount(&some, &groups, &all, nullptr, 0, multiprocessors));
  CUdevResourceDesc descriptor = nullptr;
  CHECK_CUDA(cuDevResourceGenerateDesc(&descriptor, &some, 1));
  CUgreenCtx green = nullptr;
  CHECK_CUDA(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return green;
}

ON_FAKE(FakeGreen, contextsRunKernelsOnTheirMultiprocessorsOnly, "FAKE_CUDA_MULTIPROCESSORS=4") {
  Gpu gpu;
  const CUgreenCtx green = green_context(1);
  CUstream stream = nullptr;
  CHECK_CUDA(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CUcontext context = nullptr, of_stream = nullptr;
  CHECK_CUDA(cuCtxFromGreenCtx(&context, green));
  CHECK_CUDA(cuStreamGetCtx(stream, &of_stream));
  EXPECT_EQ(context, of_stream);
  EXPECT_NE(context, gpu.context);
  CUdevResource resource{};
  CHECK_CUDA(cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT_EQ(resource.sm.smCount, 1U);
  // Two blocks of 1,024 threads fit one multiprocessor: of three, one waits for the others to end.
  CUkernel kernel = nullptr;
  CHECK_CUDA(cuLibraryGetKernel(&kernel, gpu.library, "sample_wait"));
  const Gate gate;
  SampleWait arguments = gate.arguments();
  void* parameters[] = {&arguments};
  CHECK_CUDA(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 3, 1, 1, 1024, 1, 1, 0, stream, parameters, nullptr));
  gate.open();
  CHECK_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(gate.passed(), 3 * 1024U);
}

// A kernel of the library runs wherever the stream is, one of a context only there. Memory is the device's.
ON_FAKE(FakeGreen, contextsShareMemoryAndNotKernelsOrEvents, "") {
  Gpu gpu;
  const CUgreenCtx green = green_context(2);
  CUstream stream = nullptr;
  CHECK_CUDA(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  uint32_t* const words = device_memory(4);
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CHECK_CUDA(cuLibraryGetKernel(&kernel, gpu.library, "sample_fill"));
  CHECK_CUDA(cuKernelGetFunction(&function, kernel));
  SampleFill arguments{words, 4, 7};
  void* parameters[] = {&arguments};
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  CHECK_CUDA(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
  CUevent of_primary = nullptr, of_green = nullptr;
  CHECK_CUDA(cuEventCreate(&of_primary, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(of_primary, stream));
  CUcontext context = nullptr;
  CHECK_CUDA(cuCtxFromGreenCtx(&context, green));
  CHECK_CUDA(cuCtxPushCurrent(context));
  CHECK_CUDA(cuEventCreate(&of_green, 0));
  CHECK_CUDA(cuCtxPopCurrent(nullptr));
  CHECK_CUDA(cuEventRecord(of_green, stream));
  CHECK_CUDA(cuEventSynchronize(of_green));
  EXPECT_EQ(read_back(words + 3), 10U);
  CHECK_CUDA(cuStreamDestroy(stream));
  CHECK_CUDA(cuGreenCtxDestroy(green));
}

}  // namespace
}  // namespace tutti::test
