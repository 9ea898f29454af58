// A process that returns from main, or calls exit(0), leaves the communicators that it has not destroyed as
// tuttiCommDestroy does: it serves slower ranks until they have left too, and reports calls that differ. Programs
// written for NCCL often end so.
//
// Any other end (a status that is not 0, _exit, a signal) is a failure: the others take it for a death.
#include "capi/leaving.hpp"

#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "capi/handles.hpp"

namespace tutti::capi {
namespace {

using State = tuttiComm::State;

enum class Memory { Kept, Freed };

Status leave(comm::Communicator& communicator, Memory memory) {
  try {
    communicator.await_ticket(communicator.take_ticket());
    Status status = communicator.leave();
    if (memory == Memory::Freed) communicator.retire();
    communicator.end_ticket();  // whatever still has a ticket hears that it comes too late
    return status;
  } catch (const Error& error) {
    return Status::from(error);
  } catch (const std::exception& error) {
    return {Code::OutOfMemory, error.what()};
  }
}

void log_unheard(const comm::Communicator& communicator, const Status& status) {
  if (!status.ok() && !communicator.heard()) log_error("{} (found as the process exits)", status.text);
}

/// One after the other, as one thread destroys the ranks of its process: the last one waits for other processes. Slower
/// ranks may read this process's memory until then, so none is freed.
void leave_all() {
  const auto handles = live_communicators();
  if (!handles.empty()) log_info("the process exits, and leaves the communicators that it has not destroyed");
  for (const tuttiComm_t handle : handles) {
    if (handle->comm->busy()) log_error("{}", handle->comm->drop_at_exit());
  }
  for (const tuttiComm_t handle : handles) {
    if (!handle->comm->busy()) log_unheard(*handle->comm, leave(*handle->comm, Memory::Kept));
  }
}

/// Waits for threads that finalize or destroy communicators. They end by themselves within TUTTI_TIMEOUT, but for one
/// that waits for this thread.
void await_leaving() {
  constexpr int kPauseMs = 1;
  constexpr double kMoreSeconds = 5;
  for (const tuttiComm_t handle : leaving_communicators()) {
    const auto end = Deadline::in(handle->comm->timeouts().of_calls() + kMoreSeconds);
    const auto state = [&] { return handle->state.load(std::memory_order_acquire); };
    const auto under_way = [&] { return state() == State::Finalizing || state() == State::Leaving; };
    while (under_way() && !end.passed()) poll(nullptr, 0, kPauseMs);
    const std::lock_guard lock(handle->mutex);
    if (state() == State::Finalized) log_unheard(*handle->comm, handle->outcome);
  }
}

void at_exit(int exit_status, void* /*unused*/) {
  static std::atomic<bool> done{false};
  if (exit_status != 0 || done.exchange(true)) return;
  try {
    leave_all();
    await_leaving();
  } catch (const std::exception& error) {
    log_error("the process exits and cannot leave its communicators: {}", error.what());
  }
}

/// When the library is loaded. What the program registers later, as the destructors of its static objects are, runs
/// before.
[[gnu::constructor]] void prepare_exit() { on_exit(at_exit, nullptr); }

}  // namespace

Status leave(comm::Communicator& communicator) { return leave(communicator, Memory::Freed); }

void prepare_exit_with_device() {
  static std::once_flag once;
  std::call_once(once, prepare_exit);
}

}  // namespace tutti::capi
