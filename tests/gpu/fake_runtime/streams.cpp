// Streams, events, captures and graphs.
#include "runtime.hpp"

using namespace fake_runtime;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return with_context([&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return with_context([&] { return cuStreamCreate(stream, flags); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return with_context([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&] { return cuStreamDestroy(stream); });
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return with_context([&] { return cuStreamGetPriority(stream, priority); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_context([&] { return cuStreamQuery(stream); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_context([&] { return cuStreamSynchronize(stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return with_context([&] { return cuStreamWaitEvent(stream, event, flags); });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return with_context([&] { return cuLaunchHostFunc(stream, function, data); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return with_context([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return with_context([&] { return cuEventCreate(event, flags); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&] { return cuEventDestroy(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with_context([&] { return cuEventRecord(event, stream); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return with_context([&] { return cuEventRecordWithFlags(event, stream, flags); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&] { return cuEventSynchronize(event); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return with_context([&] { return cuEventElapsedTime(milliseconds, from, to); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return with_context([&] { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return with_context([&] { return cuStreamEndCapture(stream, graph); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return with_context([&] { return cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)); });
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  static_assert(sizeof(unsigned long long) == sizeof(cuuint64_t));
  return with_context([&] {
    return cuStreamGetCaptureInfo(stream, reinterpret_cast<CUstreamCaptureStatus*>(status),
                                  reinterpret_cast<cuuint64_t*>(id), graph, nodes,
                                  reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return done(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return with_context([&] { return cuGraphInstantiate(executable, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return with_context([&] { return cuGraphLaunch(executable, stream); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return done(cuGraphExecDestroy(executable)); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return done(cuGraphDestroy(graph)); }
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* memory, cudaHostFn_t destroy, unsigned references,
                                 unsigned flags) {
  return done(cuUserObjectCreate(object, memory, destroy, references, flags));
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned references) {
  return done(cuUserObjectRelease(object, references));
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned references, unsigned flags) {
  return done(cuGraphRetainUserObject(graph, object, references, flags));
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return done(cuGraphGetNodes(graph, nodes, count));
}

}  // extern "C"
