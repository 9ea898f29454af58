// Streams, events, and functions of the host's.
#include <thread>

#include "api.hpp"

namespace fake {

Stream& new_stream(Context& context, unsigned flags, int priority) {
  context.streams.push_back(std::make_unique<Stream>());
  Stream& stream = *context.streams.back();
  stream.context = &context;
  stream.flags = flags;
  stream.priority = priority;
  stream.id = new_id();
  stream.queue = priority == kGreatestPriority ? kUrgent : context.next_queue++ % config().queues;
  return stream;
}

namespace {

// An event that was recorded in a capture stands for nodes of the graph: a stream that waits for it joins the capture.
void join(Stream& stream, const Event& event) {
  if (stream.capture == nullptr) {
    require(!event.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    stream.capture = event.capture;
    stream.capture->streams.push_back(&stream);
    stream.tail = event.tail;
    return;
  }
  if (stream.capture != event.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  for (const CUgraphNode node : event.tail) {
    if (std::find(stream.tail.begin(), stream.tail.end(), node) == stream.tail.end()) stream.tail.push_back(node);
  }
}

void wait_event(Call& one, Stream& stream, Event& event) {
  if (event.capture != nullptr) return join(stream, event);
  if (event.mark == nullptr) return;  // never recorded: nothing to wait for
  if (stream.capture != nullptr) {
    stream.capture->invalid = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);  // the event is outside of the capture
  }
  submit(one, stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [mark = event.mark] {
    return [mark] {
      if (mark->done) follow(&mark->tsan);
      return mark->done;
    };
  });
}

std::function<bool()> marker(const std::shared_ptr<Mark>& mark) {
  return [mark] {
    mark->time_ns = now_ns();
    precede(&mark->tsan);
    return mark->done = true;
  };
}

void record(Call& one, Stream& stream, Event& event, unsigned flags) {
  require(event.context == stream.context, CUDA_ERROR_INVALID_HANDLE);
  if (stream.capture != nullptr && flags != CU_EVENT_RECORD_EXTERNAL) {
    require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    event.capture = stream.capture;
    event.tail = stream.tail;
    return;
  }
  event.capture = nullptr;
  event.mark = std::make_shared<Mark>();
  submit(one, stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [mark = event.mark] { return marker(mark); });
}

const Event& finished_event(CUevent handle) {
  Event& event = event_of(handle);
  require(event.capture == nullptr, CUDA_ERROR_CAPTURED_EVENT);
  return event;
}

// A function of the user's runs on a thread of its own, for it may wait.
Maker host_call(CUhostFn function, void* data) {
  return [=] {
    return [=, mark = std::shared_ptr<Mark>()]() mutable {
      if (mark == nullptr) {
        mark = std::make_shared<Mark>();
        precede(&mark->tsan);
        std::thread([function, data, mark] {
          tsan_acquire(&mark->tsan);
          function(data);
          tsan_release(&mark->tsan);
          const Unseen unseen;
          const std::lock_guard lock(state().mutex);
          mark->done = true;
          state().work.notify_all();
        }).detach();
      }
      if (mark->done) follow(&mark->tsan);
      return mark->done;
    };
  };
}

}  // namespace
}  // namespace fake

using namespace fake;

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return call("cuStreamCreate", kContext, [&](Call& one) {
    require_pointers(stream);
    require(flags <= CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    *stream = reinterpret_cast<CUstream>(&new_stream(*one.context, flags, 0));
  });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return call("cuStreamCreateWithPriority", kContext, [&](Call& one) {
    require_pointers(stream);
    require(flags <= CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    *stream = reinterpret_cast<CUstream>(&new_stream(*one.context, flags, priority));
  });
}

// Its work goes on, and is not waited for.
CUresult cuStreamDestroy(CUstream handle) {
  return call("cuStreamDestroy", kContext, [&](Call& one) {
    require(handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD,
            CUDA_ERROR_INVALID_HANDLE);
    Stream& stream = stream_of(one, handle);
    if (stream.capture != nullptr) drop(*stream.capture);
    stream.destroyed = true;
    state().work.notify_all();
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return call("cuStreamSynchronize", kContext, [&](Call& one) {
    Stream& stream = stream_of(one, handle);
    forbid_capturing(stream);
    forbid_in_capture();
    one.drain(stream);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return call("cuStreamQuery", kContext, [&](Call& one) {
    Stream& stream = stream_of(one, handle);
    forbid_capturing(stream);
    forbid_in_capture();
    require(stream.works.empty(), CUDA_ERROR_NOT_READY);
    follow(&stream.tsan);
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return call("cuStreamGetCtx", kContext, [&](Call& one) {
    require_pointers(context);
    const Stream& stream = stream_of(one, handle);
    const bool spoilt = stream.capture != nullptr && stream.capture->invalid;
    require(!spoilt, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);  // so does the driver 580
    *context = reinterpret_cast<CUcontext>(stream.context);
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return call("cuStreamGetDevice", kContext, [&](Call& one) { *device = stream_of(one, handle).context->device; });
}
CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return call("cuStreamGetFlags", kContext, [&](Call& one) { *flags = stream_of(one, handle).flags; });
}
CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return call("cuStreamGetPriority", kContext, [&](Call& one) { *priority = stream_of(one, handle).priority; });
}
CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return call("cuStreamGetId", kContext, [&](Call& one) { *id = stream_of(one, handle).id; });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return call("cuStreamWaitEvent", kContext,
              [&](Call& one) { wait_event(one, stream_of(one, handle), event_of(event)); });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return call("cuLaunchHostFunc", kContext, [&](Call& one) {
    submit(one, stream_of(one, handle), CU_GRAPH_NODE_TYPE_HOST, host_call(function, data));
  });
}

// ---- events -----------------------------------------------------------------------------------------------

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return call("cuEventCreate", kContext, [&](Call& one) {
    require_pointers(event);
    require((flags & CU_EVENT_INTERPROCESS) == 0, CUDA_ERROR_NOT_SUPPORTED);
    state().events.push_back(std::make_unique<Event>());
    state().events.back()->context = one.context;
    state().events.back()->flags = flags;
    *event = reinterpret_cast<CUevent>(state().events.back().get());
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return call("cuEventDestroy", kInitialised, [&](Call&) {
    const Event* const event = &event_of(handle);
    std::erase_if(state().events, [&](const auto& other) { return other.get() == event; });
  });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return call("cuEventRecord", kContext, [&](Call& one) { record(one, stream_of(one, stream), event_of(event), 0); });
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return call("cuEventRecordWithFlags", kContext,
              [&](Call& one) { record(one, stream_of(one, stream), event_of(event), flags); });
}

CUresult cuEventQuery(CUevent handle) {
  return call("cuEventQuery", kContext | kUnsafe, [&](Call&) {
    const Event& event = finished_event(handle);
    require(event.mark == nullptr || event.mark->done, CUDA_ERROR_NOT_READY);
    if (event.mark != nullptr) follow(&event.mark->tsan);
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return call("cuEventSynchronize", kContext | kUnsafe, [&](Call& one) {
    const auto mark = finished_event(handle).mark;
    if (mark == nullptr) return;
    one.wait([&] { return mark->done; });
    follow(&mark->tsan);
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return call("cuEventElapsedTime", kContext, [&](Call&) {
    const Event& first = finished_event(from);
    const Event& last = finished_event(to);
    require(
        first.mark != nullptr && last.mark != nullptr && ((first.flags | last.flags) & CU_EVENT_DISABLE_TIMING) == 0,
        CUDA_ERROR_INVALID_HANDLE);
    require(first.mark->done && last.mark->done, CUDA_ERROR_NOT_READY);
    *milliseconds = static_cast<float>(static_cast<double>(last.mark->time_ns - first.mark->time_ns) / 1e6);
  });
}
