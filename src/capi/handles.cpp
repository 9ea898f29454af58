#include "capi/handles.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "base/format.hpp"
#include "capi/leaving.hpp"

namespace tutti::capi {
namespace {

constexpr size_t kRetiredCommunicators = 64;  // destroyed ones that are kept, and surely recognised as such
constexpr size_t kRetiredEvents = 1024;       // destroyed ones that are surely recognised as such

std::mutex& shells_mutex() {
  static auto* const kMutex = new std::mutex;
  return *kMutex;
}

/// Under shells_mutex().
template <class Shell>
std::deque<Shell>& shells() {
  static auto* const kShells = new std::deque<Shell>;  // pointers into a deque remain valid
  return *kShells;
}

/// Under shells_mutex().
template <class Shell>
Shell& new_shell() {
  Shell& shell = shells<Shell>().emplace_back();
  shell.mark = Shell::kKind + process_generation();
  return shell;
}

std::deque<tuttiEvent*>& retired_events() {
  static auto* const kRetired = new std::deque<tuttiEvent*>;
  return *kRetired;
}

/// Under shells_mutex(): shells of destroyed communicators, the oldest first. All but the last kRetiredCommunicators
/// have none any more, and may be used again.
std::deque<tuttiComm*>& retired_communicators() {
  static auto* const kRetired = new std::deque<tuttiComm*>;
  return *kRetired;
}

/// A generation counts forks, so it is small. Any other mark was not made here.
template <class Shell>
void check_mark(const Shell* handle, const char* what, const char* remedy = "") {
  if (handle == nullptr) throw_error(Code::InvalidArgument, "the {} is null", what);
  // What can be no address here has no mark to read: CUDA's names of its default streams are 1 and 2.
  constexpr uintptr_t kFirstPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(handle);
  const bool is_address = address >= kFirstPage && address % alignof(Shell) == 0;
  const uint64_t generation = is_address ? handle->mark - Shell::kKind : 0;
  if (generation == process_generation()) return;
  if (generation == 0 || generation > process_generation()) {
    throw_error(Code::InvalidArgument, "this is not the handle of a {}: it was never set, or was overwritten{}", what,
                remedy);
  }
  throw_error(Code::InvalidUsage, "this process was forked from the one that made the {}; make a new one here", what);
}

/// Locks an event if it is live.
std::unique_lock<std::mutex> lock_event(tuttiEvent_t handle) {
  check_mark(handle, "event");
  std::unique_lock lock(handle->mutex);
  if (!handle->live) throw Error(Code::InvalidUsage, "the event was destroyed");
  return lock;
}

std::atomic<uint64_t> last_made_in{0};  // the generation of the process that made the last communicator

thread_local std::string t_last_error;

}  // namespace

tuttiComm* make_handle(std::shared_ptr<comm::Communicator> comm) {
  const std::lock_guard lock(shells_mutex());
  auto& retired = retired_communicators();
  tuttiComm* shell = nullptr;
  if (retired.size() <= kRetiredCommunicators) {
    shell = &new_shell<tuttiComm>();
  } else {  // the shell of one that was destroyed long ago
    shell = retired.front();
    retired.pop_front();
  }
  last_made_in.store(process_generation(), std::memory_order_relaxed);
  if (comm != nullptr && comm->device() != comm::kNoDevice) prepare_exit_with_device();
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
  auto& shell = new_shell<tuttiStream>();
  shell.stream = std::move(stream);
  return &shell;
}

bool is_stream(tuttiStream_t handle) {
  const std::lock_guard lock(shells_mutex());
  const auto& all = shells<tuttiStream>();
  return std::any_of(all.begin(), all.end(), [&](const tuttiStream& shell) { return &shell == handle; });
}

tuttiEvent* make_event() {
  const std::lock_guard lock(shells_mutex());
  auto& retired = retired_events();
  if (retired.size() <= kRetiredEvents) return &new_shell<tuttiEvent>();
  tuttiEvent* const again = retired.front();
  retired.pop_front();
  const std::lock_guard event_lock(again->mutex);
  again->mark = tuttiEvent::kKind + process_generation();
  again->live = true;
  return again;
}

void retire(tuttiComm_t handle) {
  {
    const std::lock_guard lock(handle->mutex);
    handle->state.store(tuttiComm::State::Destroyed, std::memory_order_release);
  }
  std::shared_ptr<comm::Communicator> last;  // destroyed after the locks are released
  const std::lock_guard lock(shells_mutex());
  auto& retired = retired_communicators();
  retired.push_back(handle);
  if (retired.size() <= kRetiredCommunicators) return;
  tuttiComm* const oldest = retired[retired.size() - 1 - kRetiredCommunicators];
  const std::lock_guard own(oldest->mutex);
  last = std::move(oldest->comm);
}

std::vector<tuttiComm_t> live_communicators() {
  // A child of fork() that has made none ends without a look: another thread of its parent may have held the lock.
  if (last_made_in.load(std::memory_order_relaxed) != process_generation()) return {};
  const std::lock_guard lock(shells_mutex());
  std::vector<tuttiComm_t> live;
  for (tuttiComm& shell : shells<tuttiComm>()) {
    const bool ours = shell.mark == tuttiComm::kKind + process_generation();
    if (ours && shell.state.load(std::memory_order_acquire) == tuttiComm::State::Live) live.push_back(&shell);
  }
  return live;
}

void check_handle(tuttiComm_t handle) { check_mark(handle, "communicator"); }

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

std::shared_ptr<comm::Stream> live_stream_of(tuttiStream_t handle) {
  check_mark(
      handle, "stream",
      ". (A stream of CUDA needs the module cuda: `tutti info` says whether it is usable. And a GPU must have been "
      "current, as by cudaSetDevice, when the communicator was made)");
  const std::lock_guard lock(handle->mutex);
  if (handle->stream == nullptr) throw Error(Code::InvalidUsage, "the stream was destroyed");
  return handle->stream;
}

std::shared_ptr<comm::Stream> take_stream(tuttiStream_t handle) {
  check_mark(handle, "stream");
  const std::lock_guard lock(handle->mutex);
  if (handle->stream == nullptr) throw Error(Code::InvalidUsage, "the stream was destroyed");
  return std::exchange(handle->stream, nullptr);
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
  retired_events().push_back(handle);
}

void set_last_error(const char* text) {
  try {
    t_last_error = text;
  } catch (const std::exception&) {
    t_last_error.clear();
  }
}

const char* last_error() { return t_last_error.c_str(); }

}  // namespace tutti::capi
