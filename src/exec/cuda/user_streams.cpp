#include "exec/cuda/user_streams.hpp"

#include "base/format.hpp"

namespace tutti::exec::cuda {
namespace {

using tutti::cuda::driver;
using tutti::cuda::WithContext;

CUevent new_event() {
  CUevent event = nullptr;
  tutti::cuda::check(driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "an event cannot be made");
  return event;
}

CUresult is_green(CUstream stream, bool& green) {
  green = false;
  if (driver().cuStreamGetGreenCtx == nullptr) return CUDA_SUCCESS;
  CUgreenCtx context = nullptr;
  const CUresult result = driver().cuStreamGetGreenCtx(stream, &context);
  green = context != nullptr;
  return result;
}

}  // namespace

UserStreams::UserStreams(const tutti::cuda::Device& device) : device_(device) {
  const WithContext with(device.context());
  events_[device.context()] = {new_event(), new_event()};
}

UserStreams::~UserStreams() {
  try {
    const WithContext with(device_.context());
    for (const auto& [context, events] : events_) {
      driver().cuEventDestroy(events.last);
      driver().cuEventDestroy(events.order);
    }
  } catch (const Error&) {  // the driver has gone already: the process ends
  }
}

CUcontext UserStreams::context_of(CUstream stream) const {
  CUcontext context = nullptr;
  const CUresult result = driver().cuStreamGetCtx(stream, &context);
  if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) throw_error(Code::InvalidUsage, "{}", kSpoiltCapture);
  if (result != CUDA_SUCCESS) {
    throw_error(Code::InvalidArgument, "the stream is not a stream of CUDA, or was destroyed: {}",
                driver().describe(result));
  }
  return context;
}

void UserStreams::check(CUstream stream) const {
  const CUcontext context = context_of(stream);
  if (context == device_.context()) return;
  CUdevice device = -1;
  {
    const WithContext with(context);
    tutti::cuda::check(driver().cuCtxGetDevice(&device), "the stream's context has no device");
  }
  if (device != device_.handle()) {
    throw_error(Code::InvalidArgument, "the stream is not one of {}, which this rank uses", device_.name());
  }
  bool green = false;
  tutti::cuda::check(is_green(stream, green), "the stream's context is unknown");
  if (green) return;
  throw_error(Code::InvalidArgument,
              "the stream is of a context of its own on {} (cuCtxCreate): calls need streams of the primary context, "
              "which CUDA's runtime uses, or of a green context",
              device_.name());
}

UserStream UserStreams::get(CUstream stream) const {
  const CUcontext context = context_of(stream);
  if (context == device_.context() || driver().cuCtxGetDevResource == nullptr) return {stream, device_.context(), 0};
  CUdevResource resource{};
  tutti::cuda::check(driver().cuCtxGetDevResource(context, &resource, CU_DEV_RESOURCE_TYPE_SM),
                     "the multiprocessors of the stream's green context are unknown");
  return {stream, context, resource.sm.smCount};
}

UserStreams::Events& UserStreams::events_in(CUcontext context) {
  Events& events = events_[context];
  if (events.last == nullptr) {
    const WithContext with(context);
    events = {new_event(), new_event()};
  }
  return events;
}

void UserStreams::follow_last(const UserStream& on) {
  // Each thread has a stream of its own of that name.
  if (last_ == nullptr || (on.stream == last_stream_ && on.stream != CU_STREAM_PER_THREAD)) return;
  tutti::cuda::check(driver().cuStreamWaitEvent(on.stream, last_, CU_EVENT_WAIT_DEFAULT),
                     "the stream cannot wait for another");
}

void UserStreams::called(const UserStream& on) {
  last_ = events_in(on.context).last;
  last_stream_ = on.stream;
  tutti::cuda::check(driver().cuEventRecord(last_, on.stream), "an event cannot be recorded");
}

void UserStreams::order(CUstream before, CUstream after) {
  const CUevent event = events_in(context_of(before)).order;
  tutti::cuda::check(driver().cuEventRecord(event, before), "an event cannot be recorded");
  tutti::cuda::check(driver().cuStreamWaitEvent(after, event, CU_EVENT_WAIT_DEFAULT),
                     "the stream cannot wait for another");
}

}  // namespace tutti::exec::cuda
