#include "capture.hpp"

#include <algorithm>

#include "api.hpp"

namespace fake {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::vector<std::shared_ptr<Capture>> all_captures() {
  std::vector<std::shared_ptr<Capture>> all;
  for (Context* context : state().contexts()) {
    for (auto& stream : context->streams) {
      if (stream->capture != nullptr && stream->capture->origin == stream.get()) all.push_back(stream->capture);
    }
  }
  return all;
}

bool forbids(const Capture& capture) {
  if (capture.invalid || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const bool mine = capture.thread == std::this_thread::get_id();
  // A thread that is "global" is kept from it by the captures of others, too, if they are global.
  if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  return mine || (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

bool reaches(const std::vector<CUgraphNode>& from, CUgraphNode node) {
  for (const CUgraphNode each : from) {
    if (each == node || reaches(reinterpret_cast<Node*>(each)->after, node)) return true;
  }
  return false;
}

// All that other streams captured must lead to what the origin captured last.
bool joined(const Capture& capture) {
  for (const Stream* stream : capture.streams) {
    for (const CUgraphNode node : stream->tail) {
      if (!reaches(capture.origin->tail, node)) return false;
    }
  }
  return true;
}

void info(const Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
          const CUgraphNode** dependencies, size_t* count) {
  require_pointers(status);
  const Capture* const capture = stream.capture.get();
  *status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph);
  if (dependencies != nullptr) *dependencies = stream.tail.data();
  if (count != nullptr) *count = stream.tail.size();
}

}  // namespace

std::vector<Capture*> forbidding_captures() {
  std::vector<Capture*> all;
  for (const auto& capture : all_captures()) {
    if (forbids(*capture)) all.push_back(capture.get());
  }
  return all;
}

void forbid_in_capture() {
  const auto captures = forbidding_captures();
  for (Capture* capture : captures) capture->invalid = true;
  require(captures.empty(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void forbid_capturing(Stream& stream) {
  if (stream.capture == nullptr) return;
  stream.capture->invalid = true;
  fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void drop(Capture& capture) {
  const std::vector<Stream*> streams = capture.streams;
  Graph* const graph = capture.graph;
  for (Stream* stream : streams) {
    stream->tail.clear();
    stream->capture = nullptr;  // the last of them ends the object
  }
  destroy_graph(graph);
}

}  // namespace fake

using namespace fake;

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", kContext, [&](Call& one) {
    require(handle != nullptr && handle != CU_STREAM_LEGACY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    Stream& stream = stream_of(one, handle);
    require(stream.capture == nullptr, CUDA_ERROR_ILLEGAL_STATE);
    stream.capture = std::make_shared<Capture>();
    stream.capture->graph = new_graph();
    stream.capture->origin = &stream;
    stream.capture->mode = mode;
    stream.capture->thread = std::this_thread::get_id();
    stream.capture->id = new_id();
    stream.capture->streams = {&stream};
    stream.tail.clear();
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", kContext, [&](Call& one) {
    require_pointers(graph);
    *graph = nullptr;
    Stream& stream = stream_of(one, handle);
    const std::shared_ptr<Capture> capture = stream.capture;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == &stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const bool complete = joined(*capture);
    if (capture->invalid || !complete) {
      drop(*capture);
      fail(complete ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    for (Stream* each : capture->streams) {
      each->tail.clear();
      each->capture = nullptr;
    }
    *graph = reinterpret_cast<CUgraph>(capture->graph);
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return call("cuStreamIsCapturing", kContext,
              [&](Call& one) { info(stream_of(one, handle), status, nullptr, nullptr, nullptr, nullptr); });
}

// The newest forms, by the names that they have in CUDA 12.4 too.
CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  return call("cuStreamGetCaptureInfo", kContext, [&](Call& one) {
    if (edges != nullptr) *edges = nullptr;  // all are ordinary
    info(stream_of(one, handle), status, id, graph, dependencies, count);
  });
}

/// The form of CUDA 11.3 to 12.2, which cuda.h may not have.
extern "C" CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  return call("cuStreamGetCaptureInfo", kContext,
              [&](Call& one) { info(stream_of(one, handle), status, id, graph, dependencies, count); });
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode* nodes, const CUgraphEdgeData*, size_t count,
                                              unsigned flags) {
  return call("cuStreamUpdateCaptureDependencies", kContext, [&](Call& one) {
    Stream& stream = stream_of(one, handle);
    require(stream.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream.tail.clear();
    stream.tail.insert(stream.tail.end(), nodes, nodes + count);
  });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call("cuThreadExchangeStreamCaptureMode", kNothing, [&](Call&) {
    require_pointers(mode);
    std::swap(*mode, thread_mode);
  });
}
