// What the C interface hands out, and how it turns exceptions into codes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "comm/communicator.hpp"
#include "comm/stream.hpp"
#include "tutti/tutti.h"

/// Shells outlive what they hold, so that use after destroy is an error and not a crash.
struct tuttiComm {
  enum class State : int { Live, Leaving, Destroyed };
  std::atomic<State> state{State::Live};
  uint64_t process = 0;                             ///< see process_generation()
  std::shared_ptr<tutti::comm::Communicator> comm;  ///< constant while Live
  std::mutex mutex;                                 ///< guards `comm` from Leaving on, and the text
  std::string error_text;
};

struct tuttiStream {
  std::shared_ptr<tutti::comm::Stream> stream;  ///< null once destroyed
  uint64_t process = 0;
};

namespace tutti::comm {

namespace detail {
extern std::atomic<uint64_t> g_process_generation;
}
/// Changes in the child of every fork.
inline uint64_t process_generation() { return detail::g_process_generation.load(std::memory_order_relaxed); }

/// A new shell, which lives as long as the process.
tuttiComm* make_handle(std::shared_ptr<Communicator> comm);
tuttiStream* make_handle(std::shared_ptr<Stream> stream);

/// Throws what is wrong with a handle.
[[noreturn]] void refuse(tuttiComm_t handle);
/// The communicator of a handle. Throws Error(InvalidArgument) for null, Error(InvalidUsage) after destroy or in a
/// forked child.
inline const std::shared_ptr<Communicator>& communicator_of(tuttiComm_t handle) {
  const bool good = handle != nullptr && handle->process == process_generation() &&
                    handle->state.load(std::memory_order_acquire) == tuttiComm::State::Live;
  if (!good) refuse(handle);
  return handle->comm;
}
/// The same, and also while another thread destroys it: for abort and for asking after errors.
std::shared_ptr<Communicator> communicator_until_gone(tuttiComm_t handle);
/// Takes the communicator from its users: from now on only communicator_until_gone finds it. Throws as above.
std::shared_ptr<Communicator> begin_destroy(tuttiComm_t handle);
void end_destroy(tuttiComm_t handle);
std::shared_ptr<Stream> live_stream_of(tuttiStream& handle);
/// The stream of a handle; null for null.
inline std::shared_ptr<Stream> stream_of(tuttiStream_t handle) {
  return handle == nullptr ? nullptr : live_stream_of(*handle);
}

/// Remembers the words of this thread's last failure.
void set_last_error(const char* text);
const char* last_error();

/// Runs a function of the C interface. Inlined, as else its arguments are packed up and unpacked in every call.
template <class Function>
[[gnu::always_inline]] inline tuttiResult_t guarded(Function&& function) noexcept {
  try {
    function();
    return tuttiSuccess;
  } catch (const Error& error) {
    set_last_error(error.what());
    return static_cast<tuttiResult_t>(error.code());
  } catch (const std::bad_alloc&) {
    set_last_error("memory could not be had");
    return tuttiOutOfMemory;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return tuttiInternalError;
  }
}

}  // namespace tutti::comm
