// The handles of the C interface, and the conversion of exceptions to codes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/handle_region.hpp"
#include "base/process_generation.hpp"
#include "base/status.hpp"
#include "comm/communicator.hpp"
#include "comm/stream.hpp"
#include "tutti/tutti.h"

/// A shell outlives its object, so that use after destroy is an error and not a crash. `mark` identifies the kind of
/// handle and the process that made it: the kind's constant plus process_generation().
struct tuttiComm {
  static constexpr uint64_t kKind = 0x6d6d6f43'00000000;
  /// Joining → Live → Finalizing → Finalized, or Joining → NotMade; from each of them → Leaving → Destroyed.
  enum class State : int { Joining, NotMade, Live, Finalizing, Finalized, Leaving, Destroyed };
  std::atomic<State> state{State::Live};
  std::atomic<uint64_t> mark{0};
  std::shared_ptr<tutti::comm::Communicator> comm;  ///< constant while Live
  std::atomic<uint32_t> stop{0};                    ///< not 0: joining is to be given up
  bool blocking = true;                             ///< see tuttiConfig_t
  std::mutex mutex;       ///< guards what follows, changes of `state`, and `comm` where not Live
  std::thread work;       ///< joins, or finalizes
  tutti::Status outcome;  ///< of that
  std::string error_text;
};

struct tuttiStream {
  static constexpr uint64_t kKind = 0x65727453'00000000;
  std::atomic<uint64_t> mark{0};
  std::mutex mutex;                             ///< guards `stream`
  std::shared_ptr<tutti::comm::Stream> stream;  ///< null once destroyed
};

struct tuttiEvent {
  static constexpr uint64_t kKind = 0x746e7645'00000000;
  std::atomic<uint64_t> mark{0};
  std::mutex mutex;  ///< guards the members below
  bool live = true;
  std::shared_ptr<tutti::comm::Outcome> recorded;  ///< null until the first record
};

struct tuttiWindow {
  static constexpr uint64_t kKind = 0x646e6957'00000000;
  std::atomic<uint64_t> mark{0};
  std::atomic<bool> live{false};
  std::shared_ptr<tutti::comm::Communicator> comm;  ///< constant while live, and a while longer, …
  std::shared_ptr<tutti::comm::Window> window;      ///< … as this is
};

namespace tutti::capi {

inline constexpr size_t kKeptWindows = 64;  ///< deregistered ones, likewise
extern HandleRegion<tuttiWindow, 65536, kKeptWindows> windows;
inline constexpr size_t kKeptCommunicators = 64;  ///< destroyed ones that are kept, and surely recognised as such
extern HandleRegion<tuttiComm, 65536, kKeptCommunicators> communicators;

/// Throws Error where this is no handle of a communicator, or one of another process.
void check_handle(tuttiComm_t handle);
/// The end of a handle. Its communicator, which has retired, is kept for a while: another thread may be about to make a
/// call on it, and is to be refused.
void retire(tuttiComm_t handle);
/// Those whose calls can be made, of this process.
std::vector<tuttiComm_t> live_communicators();
/// Those that a thread finalizes or destroys, or that were finalized.
std::vector<tuttiComm_t> leaving_communicators();
/// A shell, new or of a communicator that was destroyed long ago. Without a communicator it is Joining.
tuttiComm* make_handle(std::shared_ptr<comm::Communicator> comm);
tuttiStream* make_handle(std::shared_ptr<comm::Stream> stream);
/// Is this the handle of one of the library's streams? Any value may be asked for.
bool is_stream(tuttiStream_t handle);
tuttiWindow* make_handle(std::shared_ptr<comm::Communicator> comm, std::shared_ptr<comm::Window> window);
/// The end of a window's handle: another thread may be about to make a call on it, and is to be refused.
void retire(tuttiWindow_t handle);
[[noreturn]] void refuse(tuttiWindow_t handle);
/// A live window's shell. Throws Error(InvalidArgument) for null and for other handles, Error(InvalidUsage) once it is
/// deregistered or in a forked child.
inline tuttiWindow& window_of(tuttiWindow_t handle) {
  const bool good = windows.has(handle) && handle->mark == tuttiWindow::kKind + process_generation() &&
                    handle->live.load(std::memory_order_acquire);
  if (!good) refuse(handle);
  return *handle;
}
/// A program may make any number of events: the shells of events destroyed long ago are reused.
tuttiEvent* make_event();

/// Throws if a handle is invalid.
[[noreturn]] void refuse(tuttiComm_t handle);
/// The communicator of a handle. Throws Error(InvalidArgument) for null and for other handles, Error(InvalidUsage)
/// after destroy or in a forked child. The functions below throw the same.
inline const std::shared_ptr<comm::Communicator>& communicator_of(tuttiComm_t handle) {
  const bool good = communicators.has(handle) && handle->mark == tuttiComm::kKind + process_generation() &&
                    handle->state.load(std::memory_order_acquire) == tuttiComm::State::Live;
  if (!good) refuse(handle);
  return handle->comm;
}

/// The communicator, if there is one: also while it is made or destroyed.
std::shared_ptr<comm::Communicator> communicator_until_gone(tuttiComm_t handle);

std::shared_ptr<comm::Stream> live_stream_of(tuttiStream_t handle);
/// The stream of a handle; null for null: calls then block.
inline std::shared_ptr<comm::Stream> stream_of(tuttiStream_t handle) {
  return handle == nullptr ? nullptr : live_stream_of(handle);
}
/// Takes the stream out of its shell.
std::shared_ptr<comm::Stream> take_stream(tuttiStream_t handle);

/// The event's last record; null if there is none.
std::shared_ptr<comm::Outcome> recorded_by(tuttiEvent_t handle);
void set_recorded(tuttiEvent_t handle, std::shared_ptr<comm::Outcome> outcome);
void destroy_event(tuttiEvent_t handle);

/// An output argument. Throws Error(InvalidArgument) for null.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw Error(Code::InvalidArgument, std::string(name) + " is null");
  return *pointer;
}

/// guarded() names the call that got it.
class NullCommunicator : public Error {
 public:
  NullCommunicator();
};

/// Stores the text of this thread's last failure.
void set_last_error(const char* text);
/// The same, of an error in `call`: its code.
tuttiResult_t set_last_error(const Error& error, const char* call) noexcept;
const char* last_error();

/// Runs a function of the C interface, which errors call name(). Inlined, since otherwise every call packs and unpacks
/// its arguments.
template <class Function, class Name>
[[gnu::always_inline]] inline tuttiResult_t guarded_as(Function&& function, Name&& name) noexcept {
  try {
    function();
    return tuttiSuccess;
  } catch (const Error& error) {
    return set_last_error(error, name());
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return tuttiOutOfMemory;
  } catch (const std::system_error& error) {
    set_last_error(error.what());
    return tuttiSystemError;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return tuttiInternalError;
  }
}

/// The same for the function that calls this one.
template <class Function>
[[gnu::always_inline]] inline tuttiResult_t guarded(Function&& function,
                                                    const char* call = __builtin_FUNCTION()) noexcept {
  return guarded_as(function, [call] { return call; });
}

}  // namespace tutti::capi
