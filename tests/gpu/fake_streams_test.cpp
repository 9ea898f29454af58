// The fake driver's rules of streams, events and launches.
#include <atomic>
#include <thread>

#include "on_fake.hpp"

extern "C" uint64_t fake_cuda_calls(const char* name);

namespace tutti::test {
namespace {

/// A word of host memory that kernels wait for, and one that they count in.
struct Gate {
  uint64_t* words = host_memory(2);
  SampleWait arguments(uint64_t value = 1) const { return {words, value, words + 1}; }
  void open(uint64_t value = 1) const { std::atomic_ref(words[0]).store(value); }
  uint64_t passed() const { return std::atomic_ref(words[1]).load(); }
};

// Whether `call` waits until the gate is open, where a kernel waits for it.
template <class Body>
void expect_waits(const Gpu& gpu, const Gate& gate, const char* name, Body call) {
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, new_stream()));
  const uint64_t before = fake_cuda_calls(name);
  std::atomic<bool> opened{false};
  std::thread thread([&] {
    gpu.use();
    call();
    EXPECT_TRUE(opened.load()) << name << " did not wait";
  });
  while (fake_cuda_calls(name) == before) std::this_thread::yield();
  opened = true;
  gate.open();
  thread.join();
}

ON_FAKE(FakeStreams, doTheirWorkInOrderAndSideBySide, "") {
  Gpu gpu;
  Gate gate;
  const CUstream first = new_stream(), second = new_stream();
  uint64_t* const words = device_memory<uint64_t>(1);
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, first));
  CHECK_CUDA(cuMemsetD32Async(address(words), 5, 1, first));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
  CHECK_CUDA(cuStreamWriteValue64(second, address(gate.words), 1, 0));  // the other stream opens the gate
  CHECK_CUDA(cuStreamSynchronize(first));
  CHECK_CUDA(cuStreamQuery(first));
  EXPECT_EQ(read_back(words), 5U);
  EXPECT_EQ(gate.passed(), 1U);
}

ON_FAKE(FakeStreams, waitForEvents, "") {
  Gpu gpu;
  Gate gate;
  const CUstream first = new_stream(), second = new_stream();
  CUevent event = nullptr, end = nullptr;
  CHECK_CUDA(cuEventCreate(&event, 0));
  CHECK_CUDA(cuEventCreate(&end, 0));
  CHECK_CUDA(cuEventQuery(event));  // never recorded
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, first));
  CHECK_CUDA(cuEventRecord(event, first));
  CHECK_CUDA(cuStreamWaitEvent(second, event, 0));
  std::atomic<uint64_t> seen{99};
  struct Seen {
    std::atomic<uint64_t>& seen;
    const Gate& gate;
  } data{seen, gate};
  CHECK_CUDA(cuLaunchHostFunc(
      second, [](void* at) { static_cast<Seen*>(at)->seen = static_cast<Seen*>(at)->gate.passed(); }, &data));
  CHECK_CUDA(cuEventRecord(end, second));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuEventQuery(end));
  gate.open();
  CHECK_CUDA(cuEventSynchronize(end));
  EXPECT_EQ(seen, 1U);
  float milliseconds = -1;
  CHECK_CUDA(cuEventElapsedTime(&milliseconds, event, end));
  EXPECT_GE(milliseconds, 0);
}

ON_FAKE(FakeStreams, thatBlockWaitForTheLegacyStream, "") {
  Gpu gpu;
  Gate gate;
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT), other = new_stream();
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, CU_STREAM_LEGACY));
  Gate open, shut;
  open.open();
  shut.open();
  CHECK_CUDA(gpu.launch("sample_wait", shut.arguments(), 1, 1, blocking));
  CHECK_CUDA(gpu.launch("sample_wait", open.arguments(), 1, 1, other));
  CHECK_CUDA(cuStreamSynchronize(other));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
  EXPECT_EQ(shut.passed(), 0U);
  gate.open();
  CHECK_CUDA(cuStreamSynchronize(blocking));
  EXPECT_EQ(shut.passed(), 1U);
}

ON_FAKE(FakeStreams, shareAsManyQueuesAsTheProgramAsksFor, "CUDA_DEVICE_MAX_CONNECTIONS=2") {
  Gpu gpu;
  Gate gate, free;
  free.open();
  CUstream streams[3];
  for (CUstream& stream : streams) stream = new_stream();
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(1), 1, 1, streams[0]));
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(1), 1, 1, streams[0]));  // cannot start, and stands in the queue
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 1, streams[2]));   // the same queue
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 1, streams[1]));   // the other
  CHECK_CUDA(cuStreamSynchronize(streams[1]));
  EXPECT_EQ(free.passed(), 1U);
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[2]));
  gate.open();
  CHECK_CUDA(cuStreamSynchronize(streams[2]));
  EXPECT_EQ(free.passed(), 2U);
}

ON_FAKE(FakeStreams, shareEightQueues, "") {
  Gpu gpu;
  Gate gate, free;
  free.open();
  // The legacy stream has the first queue; the streams after it go round.
  CUstream streams[10];
  for (CUstream& stream : streams) stream = new_stream();
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(1), 1, 1, streams[0]));
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(1), 1, 1, streams[0]));  // cannot start, and stands in the queue
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 1, streams[8]));   // the same queue
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 1, streams[9]));   // another
  CHECK_CUDA(cuStreamSynchronize(streams[9]));
  EXPECT_EQ(free.passed(), 1U);
  int greatest = 0;
  CUstream urgent = nullptr;  // the ninth stream after the first, but of another queue
  CHECK_CUDA(cuCtxGetStreamPriorityRange(nullptr, &greatest));
  for (int i = 0; i < 7; ++i) CHECK_CUDA(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 1, urgent));
  CHECK_CUDA(cuStreamSynchronize(urgent));
  EXPECT_EQ(free.passed(), 2U);
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[8]));
  gate.open();
  CHECK_CUDA(cuStreamSynchronize(streams[8]));
  EXPECT_EQ(free.passed(), 3U);
}

ON_FAKE(FakeStreams, haveAsManyBlocksAtATimeAsOccupancySays, "FAKE_CUDA_MULTIPROCESSORS=2") {
  Gpu gpu;
  Gate gate, free;
  free.open();
  int blocks = 0;
  CHECK_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, gpu.kernel("sample_wait"), 512, 0));
  EXPECT_EQ(blocks, 2);  // 64 registers for each of 512 threads: twice 32 Ki
  CHECK_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, gpu.kernel("sample_wait"), 512, 40 << 10));
  EXPECT_EQ(blocks, 2);
  CHECK_CUDA(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, gpu.kernel("sample_wait"), 32, 120 << 10));
  EXPECT_EQ(blocks, 1);  // shared memory
  const CUstream first = new_stream(), second = new_stream();
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 4, 512, first));
  const CUstream third = new_stream();
  CHECK_CUDA(cuStreamSynchronize(third));                                  // by then the first has begun
  CHECK_CUDA(gpu.launch("sample_wait", free.arguments(), 1, 32, second));  // there is no room
  for (int i = 0; i < 200; ++i) CHECK_CUDA(cuStreamSynchronize(third));    // time enough for thousands of turns
  EXPECT_EQ(free.passed(), 0U);
  gate.open();
  CHECK_CUDA(cuStreamSynchronize(first));
  CHECK_CUDA(cuStreamSynchronize(second));
  EXPECT_EQ(gate.passed(), 2048U);
  EXPECT_EQ(free.passed(), 32U);
}

ON_FAKE(FakeStreams, takeNoLaunchThatCannotBe, "") {
  Gpu gpu;
  Gate gate;
  const CUstream stream = new_stream();
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, gpu.launch("sample_fill", SampleFill{}, 1, 257, stream));  // its bound: 256
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, gpu.launch("sample_fill", SampleFill{}, 0, 1, stream));
  SampleFill arguments{};
  void* parameters[] = {&arguments};
  const CUfunction kernel = gpu.kernel("sample_fill");
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE,
              cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 50 << 10, stream, parameters, nullptr));
  CHECK_CUDA(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50 << 10));
  CHECK_CUDA(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 50 << 10, stream, parameters, nullptr));
  EXPECT_CUDA(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
              cuLaunchCooperativeKernel(kernel, 1000, 1, 1, 256, 1, 1, 0, stream, parameters));
  CHECK_CUDA(cuStreamSynchronize(stream));
}

ON_FAKE(FakeStreams, ofOtherContextsOrDestroyedAreRefused, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1);
  const CUstream stream = new_stream();
  Gpu gpu(0);
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, gpu.launch("sample_fill", SampleFill{}, 1, 1, stream));
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));
  CUcontext context = nullptr;
  CHECK_CUDA(cuStreamGetCtx(stream, &context));
  EXPECT_EQ(context, other.context);
  CHECK_CUDA(cuStreamDestroy(stream));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
  CHECK_CUDA(cuEventDestroy(event));
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
}

ON_FAKE(FakeStreams, endTheirWorkAfterTheyAreDestroyed, "") {
  Gpu gpu;
  Gate gate;
  const CUstream stream = new_stream();
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, stream));
  CHECK_CUDA(cuStreamDestroy(stream));  // does not wait
  EXPECT_EQ(gate.passed(), 0U);
  EXPECT_CUDA(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
  gate.open();
  CHECK_CUDA(cuCtxSynchronize());
  EXPECT_EQ(gate.passed(), 1U);
}

ON_FAKE(FakeStreams, mustBeDoneBeforeMemoryIsFreed, "") {
  Gpu gpu;
  uint32_t* const memory = device_memory(4);
  expect_waits(gpu, Gate{}, "cuMemFree", [&] { CHECK_CUDA(cuMemFree(address(memory))); });
}

ON_FAKE(FakeStreams, mustBeDoneBeforeALibraryIsLoaded, "") {
  Gpu gpu;
  expect_waits(gpu, Gate{}, "cuLibraryLoadData", [&] {
    CUlibrary library = nullptr;
    CHECK_CUDA(cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0));
  });
}

ON_FAKE(FakeStreams, readPageableMemoryBeforeTheCallReturns, "") {
  Gpu gpu;
  Gate gate;
  const CUstream stream = new_stream();
  uint32_t* const memory = device_memory(1);
  uint32_t value = 1;
  CHECK_CUDA(gpu.launch("sample_wait", gate.arguments(), 1, 1, stream));
  CHECK_CUDA(cuMemcpyHtoDAsync(address(memory), &value, 4, stream));
  value = 2;
  gate.open();
  uint32_t got = 0;
  CHECK_CUDA(cuMemcpyDtoHAsync(&got, address(memory), 4, stream));  // pageable: it has ended when it returns
  EXPECT_EQ(got, 1U);
}

ON_FAKE(FakeStreams, waitForWords, "") {
  Gpu gpu;
  const CUstream first = new_stream(), second = new_stream();
  uint32_t* const word = device_memory(1);
  CHECK_CUDA(cuStreamWaitValue32(first, address(word), 3, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
  CHECK_CUDA(cuStreamWriteValue32(second, address(word), 3, 0));
  CHECK_CUDA(cuStreamSynchronize(first));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(first, address(word) + 2, 3, CU_STREAM_WAIT_VALUE_GEQ));
}

ON_FAKE(FakeStreams, flushAWaitIfTheDeviceCan, "FAKE_CUDA_DEVICES=2 FAKE_CUDA_INJECT=no_flush@1") {
  constexpr unsigned kFlush = CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH, kUnknown = 1U << 20;
  for (const int device : {0, 1}) {
    const Gpu gpu(device);
    const CUstream stream = new_stream();
    uint64_t* const word = device_memory<uint64_t>(1);
    int flushes = -1;
    CHECK_CUDA(cuDeviceGetAttribute(&flushes, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device));
    EXPECT_EQ(flushes, device == 0 ? 1 : 0);
    EXPECT_CUDA(device == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED,
                cuStreamWaitValue64(stream, address(word), 0, kFlush));
    EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue64(stream, address(word), 0, kUnknown));
    CHECK_CUDA(cuStreamSynchronize(stream));
  }
}

ON_FAKE(FakeStreams, haveNoLongWordsWhereTheDeviceSaysSo, "FAKE_CUDA_INJECT=no_64_bit") {
  const Gpu gpu;
  const CUstream stream = new_stream();
  uint64_t* const word = device_memory<uint64_t>(1);
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue64(stream, address(word), 1, 0));
  CUstreamBatchMemOpParams operation{};
  operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, address(word), {}, 0, 0};
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp(stream, 1, &operation, 0));
  CHECK_CUDA(cuStreamWriteValue32(stream, address(word), 1, 0));
  CHECK_CUDA(cuStreamSynchronize(stream));
}

ON_FAKE(FakeStreams, takeWordsTogetherAndInOrder, "") {
  Gpu gpu;
  const CUstream first = new_stream(), second = new_stream();
  auto* const words = host_memory<uint32_t>(3);
  const auto wait = [&](int i, uint32_t value) {
    CUstreamBatchMemOpParams operation{};
    operation.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, address(words + i), {value}, CU_STREAM_WAIT_VALUE_GEQ, 0};
    return operation;
  };
  const auto write = [&](int i, uint32_t value) {
    CUstreamBatchMemOpParams operation{};
    operation.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address(words + i), {value}, 0, 0};
    return operation;
  };
  const auto word = [&](int i) { return std::atomic_ref(words[i]).load(); };
  CUstreamBatchMemOpParams waits[] = {write(0, 1), wait(1, 5), write(1, 0), write(2, 1)};
  CHECK_CUDA(cuStreamBatchMemOp(first, 4, waits, 0));
  while (word(0) == 0) std::this_thread::yield();
  EXPECT_EQ(word(2), 0u);
  CUstreamBatchMemOpParams opens = write(1, 5);
  CHECK_CUDA(cuStreamBatchMemOp(second, 1, &opens, 0));
  CHECK_CUDA(cuStreamSynchronize(first));
  EXPECT_EQ(word(1), 0u);
  EXPECT_EQ(word(2), 1u);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(first, 256, waits, 0));
}

// The order in which the threads of a grid counted.
std::string order_of_threads(const Gpu& gpu, unsigned blocks, unsigned threads) {
  uint32_t* const memory = device_memory(64);
  CHECK_CUDA(gpu.launch("sample_order", SampleOrder{memory, memory + 1}, blocks, threads, nullptr));
  std::vector<uint32_t> order(blocks * threads);
  CHECK_CUDA(cuMemcpyDtoH(order.data(), address(memory + 1), order.size() * 4));
  std::string text;
  for (const uint32_t thread : order) text += std::to_string(thread) + " ";
  return text;
}
void print_orders() {
  const Gpu gpu;
  std::printf("blocks: %s\n", order_of_threads(gpu, 32, 1).c_str());
  std::printf("threads: %s\n", order_of_threads(gpu, 1, 32).c_str());
}
std::string line_of(const Ended& ended, const char* name) {
  const size_t at = ended.output.find(name);
  return ended.output.substr(at, ended.output.find('\n', at) - at);
}

TEST(FakeStreams, haveThreadsInTheOrderOfTheSeed) {
  if (inside()) return print_orders();
  const Ended first = run_again("FAKE_CUDA_SEED=1"), same = run_again("FAKE_CUDA_SEED=1");
  const Ended other = run_again("FAKE_CUDA_SEED=2");
  for (const char* name : {"blocks: ", "threads: "}) {
    EXPECT_EQ(line_of(first, name), line_of(same, name));
    EXPECT_NE(line_of(first, name), line_of(other, name));
  }
}

ON_FAKE(FakeStreams, exchangeLinesBetweenKernels, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1), gpu(0);
  CHECK_CUDA(cuCtxEnablePeerAccess(other.context, 0));
  ptx::Words* const here = device_memory<ptx::Words>(32);
  uint64_t* const received = device_memory<uint64_t>(2);
  other.use();
  CHECK_CUDA(cuCtxEnablePeerAccess(gpu.context, 0));
  ptx::Words* const there = device_memory<ptx::Words>(32);
  const CUstream second = new_stream();
  CHECK_CUDA(other.launch("sample_lines", SampleLines{there, here, 100, received + 1}, 1, 32, second));
  gpu.use();
  const CUstream first = new_stream();
  CHECK_CUDA(gpu.launch("sample_lines", SampleLines{here, there, 100, received}, 1, 32, first));
  CHECK_CUDA(cuStreamSynchronize(first));
  other.use();
  CHECK_CUDA(cuStreamSynchronize(second));
  EXPECT_EQ(read_back(received), 3200U);
  EXPECT_EQ(read_back(received + 1), 3200U);
}

}  // namespace
}  // namespace tutti::test
