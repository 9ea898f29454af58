// The fake driver's rules of stream capture and graphs.
#include <atomic>
#include <thread>

#include "on_fake.hpp"

namespace tutti::test {
namespace {

CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec executable = nullptr;
  CHECK_CUDA(cuGraphInstantiate(&executable, graph, 0));
  return executable;
}

void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
  CHECK_CUDA(cuStreamBeginCapture(stream, mode));
}

CUgraph end(CUstream stream) {
  CUgraph graph = nullptr;
  CHECK_CUDA(cuStreamEndCapture(stream, &graph));
  return graph;
}

CUevent new_event() {
  CUevent event = nullptr;
  CHECK_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

ON_FAKE(FakeCapture, recordsAndReplays, "") {
  Gpu gpu;
  const CUstream stream = new_stream();
  uint64_t* const words = host_memory(2);
  begin(stream);
  CHECK_CUDA(gpu.launch("sample_wait", SampleWait{words, 0, words + 1}, 2, 16, stream));
  CUgraph graph = end(stream);
  EXPECT_EQ(words[1], 0U);  // nothing ran
  const CUgraphExec executable = instantiate(graph);
  CHECK_CUDA(cuGraphDestroy(graph));  // the executable lives on
  for (int i = 0; i < 1000; ++i) CHECK_CUDA(cuGraphLaunch(executable, stream));
  CHECK_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(words[1], 32000U);
  CHECK_CUDA(cuGraphExecDestroy(executable));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(executable, stream));
}

ON_FAKE(FakeCapture, followsEventsIntoOtherStreamsAndBack, "") {
  Gpu gpu;
  const CUstream stream = new_stream(), branch = new_stream();
  const CUevent fork = new_event(), join = new_event();
  uint64_t* const words = host_memory(3);
  uint32_t* const memory = device_memory(4);
  begin(stream);
  CHECK_CUDA(cuEventRecord(fork, stream));
  CHECK_CUDA(cuStreamWaitEvent(branch, fork, 0));
  CUstreamCaptureStatus status{};
  CHECK_CUDA(cuStreamIsCapturing(branch, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  // One branch waits for what the other does: both must run side by side.
  CHECK_CUDA(gpu.launch("sample_wait", SampleWait{words, 1, words + 1}, 1, 1, stream));
  CHECK_CUDA(cuStreamWriteValue64(branch, address(words), 1, 0));
  CHECK_CUDA(cuEventRecord(join, branch));
  CHECK_CUDA(cuStreamWaitEvent(stream, join, 0));
  CHECK_CUDA(cuMemsetD32Async(address(memory), 7, 4, stream));
  const CUgraph graph = end(stream);
  size_t nodes = 0;
  CHECK_CUDA(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 3U);
  CHECK_CUDA(cuStreamIsCapturing(branch, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK_CUDA(cuGraphLaunch(instantiate(graph), stream));
  CHECK_CUDA(cuStreamSynchronize(stream));
  EXPECT_EQ(words[1], 1U);
  EXPECT_EQ(read_back(memory + 3), 7U);
}

// Begins a capture, does what must spoil it, and ends it.
template <class Body>
void expect_spoils(CUresult result, Body body) {
  const auto buffer = address(device_memory(1));
  const CUstream stream = new_stream(CU_STREAM_DEFAULT);
  begin(stream);
  EXPECT_CUDA(result, body(stream));
  CUstreamCaptureStatus status{};
  CHECK_CUDA(cuStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(buffer, 0, 1, stream));
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph, nullptr);
}

ON_FAKE(FakeCapture, isSpoiltByWhatCannotBeCaptured, "") {
  Gpu gpu;
  CUdeviceptr memory = 0;
  const auto buffer = address(device_memory(1));
  const CUstream other = new_stream();
  const CUevent event = new_event();
  CHECK_CUDA(cuEventRecord(event, other));
  const auto unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  expect_spoils(unsupported, [&](CUstream) { return cuMemAlloc(&memory, 4); });
  expect_spoils(unsupported, [&](CUstream) { return cuMemFree(buffer); });
  expect_spoils(unsupported, [&](CUstream) { return cuCtxSynchronize(); });
  expect_spoils(unsupported, [&](CUstream stream) { return cuStreamSynchronize(stream); });
  expect_spoils(unsupported, [&](CUstream stream) { return cuStreamQuery(stream); });
  expect_spoils(unsupported, [&](CUstream) { return cuEventQuery(event); });
  expect_spoils(unsupported, [&](CUstream) { return cuEventSynchronize(event); });
  expect_spoils(unsupported, [&](CUstream) { return cuMemsetD8(buffer, 0, 1); });
  expect_spoils(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, [&](CUstream) { return cuMemsetD8Async(buffer, 0, 1, nullptr); });
  expect_spoils(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                [&](CUstream stream) { return cuStreamWaitEvent(stream, event, 0); });
  expect_spoils(unsupported, [&](CUstream) {
    CUlibrary library = nullptr;
    return cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0);
  });
}

ON_FAKE(FakeCapture, ofOneThreadOrRelaxedLetsOthersWork, "") {
  Gpu gpu;
  const CUstream stream = new_stream();
  const auto allocate = [&] {
    gpu.use();
    CUdeviceptr memory = 0;
    return cuMemAlloc(&memory, 4);
  };
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] { EXPECT_CUDA(CUDA_SUCCESS, allocate()); }).join();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_CUDA(CUDA_SUCCESS, allocate());
  CHECK_CUDA(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate());
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CUDA(CUDA_SUCCESS, allocate());
  CHECK_CUDA(cuGraphDestroy(end(stream)));
}

ON_FAKE(FakeCapture, endsWhereItBegan, "") {
  Gpu gpu;
  const CUstream stream = new_stream(), branch = new_stream();
  const CUevent fork = new_event();
  uint32_t* const memory = device_memory(1);
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(stream, &graph));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  begin(stream);
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_CUDA(cuEventRecord(fork, stream));
  EXPECT_CUDA(CUDA_ERROR_CAPTURED_EVENT, [&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    const CUresult result = cuEventQuery(fork);
    cuThreadExchangeStreamCaptureMode(&mode);
    return result;
  }());
  CHECK_CUDA(cuStreamWaitEvent(branch, fork, 0));
  CHECK_CUDA(cuMemsetD32Async(address(memory), 7, 1, branch));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(branch, &graph));
  std::thread([&] {
    gpu.use();
    EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(stream, &graph));
  }).join();
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));  // the branch never came back
}

ON_FAKE(FakeCapture, isNotMergedWithAnother, "") {
  Gpu gpu;
  const CUstream stream = new_stream(), other = new_stream();
  const CUevent event = new_event();
  begin(stream);
  begin(other);
  CHECK_CUDA(cuEventRecord(event, stream));
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(other, event, 0));
}

CUuserObject new_object(std::atomic<int>* destroyed) {
  CUuserObject object = nullptr;
  const CUhostFn count = [](void* at) { ++*static_cast<std::atomic<int>*>(at); };
  CHECK_CUDA(cuUserObjectCreate(&object, destroyed, count, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  return object;
}

ON_FAKE(FakeCapture, tellsItsGraphWhichKeepsUserObjects, "") {
  Gpu gpu;
  const CUstream stream = new_stream();
  std::atomic<int> destroyed{0};
  const CUuserObject object = new_object(&destroyed);
  uint64_t* const words = host_memory(2);
  begin(stream);
  CHECK_CUDA(gpu.launch("sample_wait", SampleWait{words, 1, words + 1}, 1, 1, stream));
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  size_t count = 0;
  CHECK_CUDA(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, nullptr, nullptr, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(count, 1U);
  CHECK_CUDA(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  EXPECT_EQ(end(stream), graph);
  const CUgraphExec executable = instantiate(graph);
  CHECK_CUDA(cuGraphLaunch(executable, stream));
  CHECK_CUDA(cuGraphDestroy(graph));
  CHECK_CUDA(cuGraphExecDestroy(executable));
  std::atomic<int> other{0};
  CHECK_CUDA(cuUserObjectRelease(new_object(&other), 1));
  while (other == 0) std::this_thread::yield();
  EXPECT_EQ(destroyed, 0);  // a launch is in flight
  std::atomic_ref(words[0]).store(1);
  CHECK_CUDA(cuStreamSynchronize(stream));
  while (destroyed == 0) std::this_thread::yield();
}

}  // namespace
}  // namespace tutti::test
