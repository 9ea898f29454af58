// The C interface: host streams and events.
#include <memory>
#include <utility>

#include "base/format.hpp"
#include "capi/handles.hpp"
#include "comm/stream.hpp"
#include "comm/submit.hpp"

namespace tutti::capi {
namespace {

std::shared_ptr<comm::Stream> required_stream(tuttiStream_t handle) {
  if (handle == nullptr) throw Error(Code::InvalidArgument, "stream is null");
  return live_stream_of(handle);
}

/// A group's calls reach their streams when the group ends: the effect of this call would precede them.
void refuse_in_group(const char* call) {
  if (comm::in_group()) throw_error(Code::InvalidUsage, "{} between tuttiGroupStart and tuttiGroupEnd", call);
}

/// A stream's task that waits for the stream's tasks would wait forever.
void refuse_on_itself(const comm::Stream& stream, const char* call) {
  if (stream.is_this_thread()) throw_error(Code::InvalidUsage, "{} by a host function of the same stream", call);
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return guarded([&] {
    required(stream, "stream") = nullptr;
    *stream = make_handle(std::make_shared<comm::Stream>());
  });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return guarded([&] {
    const auto live = required_stream(stream);
    refuse_on_itself(*live, "tuttiStreamSynchronize");
    live->synchronize().throw_if_bad();
  });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  bool pending = false;
  const tuttiResult_t result = guarded([&] {
    const auto status = required_stream(stream)->poll();
    pending = !status;
    if (status) status->throw_if_bad();
  });
  return pending ? tuttiInProgress : result;
}

tuttiResult_t tuttiStreamWaitEvent(tuttiStream_t stream, tuttiEvent_t event) {
  return guarded([&] {
    const auto live = required_stream(stream);
    refuse_in_group("tuttiStreamWaitEvent");
    if (auto outcome = recorded_by(event)) live->enqueue([outcome = std::move(outcome)] { return outcome->wait(); });
  });
}

tuttiResult_t tuttiStreamLaunchHostFunc(tuttiStream_t stream, tuttiHostFn_t function, void* argument) {
  return guarded([&] {
    const auto live = required_stream(stream);
    if (function == nullptr) throw Error(Code::InvalidArgument, "function is null");
    refuse_in_group("tuttiStreamLaunchHostFunc");
    live->enqueue([function, argument] {
      function(argument);
      return Status{};
    });
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return guarded([&] {
    refuse_on_itself(*required_stream(stream), "tuttiStreamDestroy");
    take_stream(stream)->synchronize().throw_if_bad();
  });
}

tuttiResult_t tuttiEventCreate(tuttiEvent_t* event) {
  return guarded([&] { required(event, "event") = make_event(); });
}

tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream) {
  return guarded([&] {
    const auto live = required_stream(stream);
    refuse_in_group("tuttiEventRecord");
    recorded_by(event);  // before the stream is used: the event may be invalid
    set_recorded(event, live->record());
  });
}

tuttiResult_t tuttiEventQuery(tuttiEvent_t event) {
  bool pending = false;
  const tuttiResult_t result = guarded([&] {
    const auto outcome = recorded_by(event);
    pending = outcome != nullptr && !outcome->settled();
    if (outcome != nullptr && !pending) outcome->wait().throw_if_bad();
  });
  return pending ? tuttiInProgress : result;
}

tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event) {
  return guarded([&] {
    if (const auto outcome = recorded_by(event)) outcome->wait().throw_if_bad();
  });
}

tuttiResult_t tuttiEventDestroy(tuttiEvent_t event) {
  return guarded([&] { destroy_event(event); });
}
