#include "capi/handles.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "capi/leaving.hpp"

namespace tutti::capi {

HandleRegion<tuttiComm, 65536, kKeptCommunicators> communicators;
HandleRegion<tuttiWindow, 65536, kKeptWindows> windows;

namespace {

std::mutex& shells_mutex() {
  static auto* const kMutex = new std::mutex;
  return *kMutex;
}

HandleRegion<tuttiStream, 65536, 1024> streams;  // under shells_mutex()
HandleRegion<tuttiEvent, 262144, 1024> events;   // likewise

/// A new object in a region, or one of before, which its maker sets anew. Under shells_mutex().
template <class Region>
auto& new_shell(Region& region, const char* what) {
  const auto [place, again] = region.take();
  if (place == nullptr) throw_error(Code::SystemError, "this process has as many {} as there can be", what);
  using Shell = std::remove_pointer_t<decltype(region.begin())>;
  return again ? *place : *new (place) Shell;
}

/// A generation counts forks, so it is small. Any other mark was not made here.
template <class Region, class Shell>
void check_mark(const Region& region, const Shell* handle, const char* what, const char* remedy = "") {
  if (handle == nullptr) throw_error(Code::InvalidArgument, "the {} is null", what);
  const uint64_t generation = region.has(handle) ? handle->mark - Shell::kKind : 0;
  if (generation == process_generation()) return;
  if (generation == 0 || generation > process_generation()) {
    const char* const article = what[0] == 'e' ? "an" : "a";
    throw_error(Code::InvalidArgument, "this is not the handle of {} {}: it was never set, or was overwritten{}",
                article, what, remedy);
  }
  throw_error(Code::InvalidUsage, "this process was forked from the one that made the {}; make a new one here", what);
}

/// Locks an event if it is live.
std::unique_lock<std::mutex> lock_event(tuttiEvent_t handle) {
  check_mark(events, handle, "event");
  std::unique_lock lock(handle->mutex);
  if (!handle->live) throw Error(Code::InvalidUsage, "the event was destroyed");
  return lock;
}

std::atomic<uint64_t> last_made_in{0};  // the generation of the process that made the last communicator

/// Of this process, in a state, and made.
template <class Wanted>
std::vector<tuttiComm_t> communicators_in(const Wanted& wanted) {
  // A child of fork() that has made none ends without a look: another thread of its parent may have held the lock.
  if (last_made_in.load(std::memory_order_relaxed) != process_generation()) return {};
  const std::lock_guard lock(shells_mutex());
  std::vector<tuttiComm_t> found;
  for (tuttiComm& shell : communicators) {
    if (shell.mark != tuttiComm::kKind + process_generation()) continue;
    if (!wanted(shell.state.load(std::memory_order_acquire))) continue;
    const std::lock_guard own(shell.mutex);
    if (shell.comm != nullptr) found.push_back(&shell);
  }
  return found;
}

/// Text that a thread is told. It is there for the destructors of static objects too, which run after those of the main
/// thread's own variables.
class ThreadText {
 public:
  void set(const char* text) {
    static thread_local const Freed kFreed;
    if (text_ == nullptr) text_ = new std::string;
    *text_ = text;
  }
  void clear() {
    if (text_ != nullptr) text_->clear();
  }
  const char* get() const { return text_ == nullptr ? "" : text_->c_str(); }

 private:
  struct Freed {
    ~Freed();
  };
  std::string* text_ = nullptr;
};
constinit thread_local ThreadText t_last_error;

ThreadText::Freed::~Freed() { delete std::exchange(t_last_error.text_, nullptr); }

}  // namespace

tuttiComm* make_handle(std::shared_ptr<comm::Communicator> comm) {
  const std::lock_guard lock(shells_mutex());
  tuttiComm* const shell = &new_shell(communicators, "communicators");
  last_made_in.store(process_generation(), std::memory_order_relaxed);
  if (comm != nullptr && comm->uses_others()) prepare_exit_with_device();
  const std::lock_guard own(shell->mutex);
  shell->mark = tuttiComm::kKind + process_generation();
  shell->stop.store(0, std::memory_order_relaxed);
  shell->blocking = true;
  shell->outcome = {};
  shell->error_text.clear();
  const auto state = comm == nullptr ? tuttiComm::State::Joining : tuttiComm::State::Live;
  shell->comm = std::move(comm);
  shell->state.store(state, std::memory_order_release);
  return shell;
}

tuttiStream* make_handle(std::shared_ptr<comm::Stream> stream) {
  const std::lock_guard lock(shells_mutex());
  auto& shell = new_shell(streams, "streams");
  const std::lock_guard own(shell.mutex);
  shell.mark = tuttiStream::kKind + process_generation();
  shell.stream = std::move(stream);
  return &shell;
}

bool is_stream(tuttiStream_t handle) { return streams.has(handle); }

tuttiWindow* make_handle(std::shared_ptr<comm::Communicator> comm, std::shared_ptr<comm::Window> window) {
  const std::lock_guard lock(shells_mutex());
  auto& shell = new_shell(windows, "windows");
  shell.mark = tuttiWindow::kKind + process_generation();
  shell.comm = std::move(comm);
  shell.window = std::move(window);
  shell.live.store(true, std::memory_order_release);
  return &shell;
}

void retire(tuttiWindow_t handle) {
  std::shared_ptr<comm::Communicator> comm;  // the last ones are destroyed after the lock is released
  std::shared_ptr<comm::Window> window;
  const std::lock_guard lock(shells_mutex());
  windows.retire(handle);
  tuttiWindow* const oldest = windows.passed_over();
  if (oldest == nullptr) return;
  comm = std::move(oldest->comm);
  window = std::move(oldest->window);
}

void refuse(tuttiWindow_t handle) {
  check_mark(windows, handle, "window");
  throw Error(Code::InvalidUsage, "the window was deregistered");
}

tuttiEvent* make_event() {
  const std::lock_guard lock(shells_mutex());
  auto& event = new_shell(events, "events");
  const std::lock_guard event_lock(event.mutex);
  event.mark = tuttiEvent::kKind + process_generation();
  event.live = true;
  return &event;
}

void retire(tuttiComm_t handle) {
  {
    const std::lock_guard lock(handle->mutex);
    handle->state.store(tuttiComm::State::Destroyed, std::memory_order_release);
  }
  std::shared_ptr<comm::Communicator> last;  // destroyed after the locks are released
  const std::lock_guard lock(shells_mutex());
  communicators.retire(handle);
  tuttiComm* const oldest = communicators.passed_over();
  if (oldest == nullptr) return;
  const std::lock_guard own(oldest->mutex);
  last = std::move(oldest->comm);
}

std::vector<tuttiComm_t> live_communicators() {
  return communicators_in([](tuttiComm::State state) { return state == tuttiComm::State::Live; });
}

std::vector<tuttiComm_t> leaving_communicators() {
  return communicators_in([](tuttiComm::State state) {
    return state == tuttiComm::State::Finalizing || state == tuttiComm::State::Finalized ||
           state == tuttiComm::State::Leaving;
  });
}

NullCommunicator::NullCommunicator()
    : Error(Code::InvalidArgument,
            "the communicator is null: it was not made, has been closed, or is that of a rank which joined none by a "
            "split with TUTTI_NO_COLOUR") {}

void check_handle(tuttiComm_t handle) {
  if (handle == nullptr) throw NullCommunicator();
  check_mark(communicators, handle, "communicator");
}

void refuse(tuttiComm_t handle) {
  check_handle(handle);
  const std::lock_guard lock(handle->mutex);
  switch (handle->state.load(std::memory_order_relaxed)) {
    case tuttiComm::State::Joining:
      throw Error(
          Code::InProgress,
          "the communicator is still being made: ask tuttiCommGetAsyncError until it is no longer tuttiInProgress");
    case tuttiComm::State::NotMade:
      throw Error(handle->outcome.code, handle->outcome.text);
    case tuttiComm::State::Finalizing:
    case tuttiComm::State::Finalized:
      throw Error(Code::InvalidUsage, "the communicator was finalized: what is left to do is tuttiCommDestroy");
    default:
      throw Error(Code::InvalidUsage, "the communicator was destroyed");
  }
}

std::shared_ptr<comm::Communicator> communicator_until_gone(tuttiComm_t handle) {
  check_handle(handle);
  const std::lock_guard lock(handle->mutex);
  if (handle->state.load(std::memory_order_relaxed) == tuttiComm::State::Destroyed) {
    throw Error(Code::InvalidUsage, "the communicator was destroyed");
  }
  return handle->comm;
}

std::shared_ptr<comm::Stream> live_stream_of(tuttiStream_t handle) {
  check_mark(
      streams, handle, "stream",
      ". (A stream of CUDA needs the module cuda: `tutti info` says whether it is usable. And a GPU must have been "
      "current, as by cudaSetDevice, when the communicator was made)");
  const std::lock_guard lock(handle->mutex);
  if (handle->stream == nullptr) throw Error(Code::InvalidUsage, "the stream was destroyed");
  return handle->stream;
}

std::shared_ptr<comm::Stream> take_stream(tuttiStream_t handle) {
  auto stream = live_stream_of(handle);
  {
    const std::lock_guard lock(handle->mutex);
    // Of two threads that destroy it, one finds that it is gone.
    if (std::exchange(handle->stream, nullptr) == nullptr) throw Error(Code::InvalidUsage, "the stream was destroyed");
  }
  const std::lock_guard lock(shells_mutex());
  streams.retire(handle);
  return stream;
}

std::shared_ptr<comm::Outcome> recorded_by(tuttiEvent_t handle) {
  const auto lock = lock_event(handle);
  return handle->recorded;
}

void set_recorded(tuttiEvent_t handle, std::shared_ptr<comm::Outcome> outcome) {
  const auto lock = lock_event(handle);
  handle->recorded = std::move(outcome);
}

void destroy_event(tuttiEvent_t handle) {
  {
    const auto lock = lock_event(handle);
    handle->live = false;
    handle->recorded = nullptr;
  }
  const std::lock_guard lock(shells_mutex());
  events.retire(handle);
}

tuttiResult_t set_last_error(const Error& error, const char* call) noexcept {
  const auto result = static_cast<tuttiResult_t>(error.code());
  try {
    const bool is_null = dynamic_cast<const NullCommunicator*>(&error) != nullptr;
    set_last_error(is_null ? fmt::format("{}: {}", call, error.what()).c_str() : error.what());
  } catch (const std::exception&) {  // no memory for the text
  }
  return result;
}

void set_last_error(const char* text) {
  try {
    t_last_error.set(text);
  } catch (const std::exception&) {
    t_last_error.clear();
  }
}

const char* last_error() { return t_last_error.get(); }

}  // namespace tutti::capi
