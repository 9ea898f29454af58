// Host streams, and events that order them.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace tutti {

class Event;

/// A thread that runs calls in order.
class Stream {
 public:
  Stream() { check(tuttiStreamCreate(&stream_)); }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  }
  /// Waits for all calls made on it; throws the first error among them.
  void synchronize() { check(tuttiStreamSynchronize(stream_)); }
  /// True if all calls made on it have run. Does not wait; throws the first error among them, as synchronize() still
  /// will.
  bool done() const {
    const tuttiResult_t result = tuttiStreamQuery(stream_);
    if (result != tuttiInProgress) check(result);
    return result == tuttiSuccess;
  }
  /// Later calls on the stream run after the calls that the event has recorded.
  void wait(const Event& event);
  /// Calls `function` on the stream's thread after all earlier calls, whether they succeeded or not. It must not wait
  /// for this stream. synchronize() throws its exception: an Error unchanged, any other as InvalidUsage.
  template <std::invocable Function>
  void launch(Function function) {
    auto owned = std::make_unique<Function>(std::move(function));
    const auto call = [](void* argument) { (*std::unique_ptr<Function>(static_cast<Function*>(argument)))(); };
    check(tuttiStreamLaunchHostFunc(stream_, call, owned.get()));
    owned.release();
  }
  operator tuttiStream_t() const { return stream_; }  // NOLINT: stands wherever a stream is wanted

 private:
  tuttiStream_t stream_ = nullptr;
};

/// A point in a stream's order.
class Event {
 public:
  Event() { check(tuttiEventCreate(&event_)); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) tuttiEventDestroy(event_);
  }
  /// Records all calls made on the stream so far; replaces what it recorded before.
  void record(const Stream& stream) { check(tuttiEventRecord(event_, stream)); }
  /// True if the recorded calls have run, or nothing was recorded. Does not wait; throws the stream's first error.
  bool done() const {
    const tuttiResult_t result = tuttiEventQuery(event_);
    if (result != tuttiInProgress) check(result);
    return result == tuttiSuccess;
  }
  /// Waits for the recorded calls; throws as `done` does.
  void synchronize() const { check(tuttiEventSynchronize(event_)); }
  operator tuttiEvent_t() const { return event_; }  // NOLINT: stands wherever an event is wanted

 private:
  tuttiEvent_t event_ = nullptr;
};

inline void Stream::wait(const Event& event) { check(tuttiStreamWaitEvent(stream_, event)); }

}  // namespace tutti
