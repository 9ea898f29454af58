// The streams that users enqueue calls on: which can be used, and in which order their calls run. A stream belongs to
// the device's primary context, or to a green context of the device, which has some of its multiprocessors.
#pragma once

#include <cstdint>
#include <map>

#include "transports/cuda/device.hpp"

namespace tutti::exec::cuda {

inline constexpr const char* kSpoiltCapture =
    "the stream's capture was invalidated by an earlier call that cannot be captured";

/// A stream that a call is enqueued on.
struct UserStream {
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  uint32_t multiprocessors = 0;  ///< of its green context; 0: it is of the primary context
};

/// Of one rank. One thread at a time.
class UserStreams {
 public:
  explicit UserStreams(const tutti::cuda::Device& device);
  ~UserStreams();
  UserStreams(const UserStreams&) = delete;
  UserStreams& operator=(const UserStreams&) = delete;

  /// Throws Error(InvalidArgument) if it is no stream of the device.
  void check(CUstream stream) const;
  UserStream get(CUstream stream) const;

  /// What is enqueued on the stream next runs after the last call, whose stream may be another.
  void follow_last(const UserStream& on);
  /// A call was enqueued.
  void called(const UserStream& on);
  /// What is enqueued on `after` from now on waits for what is on `before`.
  void order(CUstream before, CUstream after);

 private:
  /// Of one context: others' streams cannot record them. A wait is for what an event was recorded as when the wait was
  /// enqueued, so one serves all.
  struct Events {
    CUevent last = nullptr, order = nullptr;
  };
  CUcontext context_of(CUstream stream) const;
  Events& events_in(CUcontext context);

  const tutti::cuda::Device& device_;
  std::map<CUcontext, Events> events_;
  CUstream last_stream_ = nullptr;
  CUevent last_ = nullptr;  // null: there was no call
};

}  // namespace tutti::exec::cuda
