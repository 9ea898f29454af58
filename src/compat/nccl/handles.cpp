#include "compat/nccl/handles.hpp"

#include <sys/mman.h>

#include <deque>
#include <new>

namespace tutti::nccl {

std::atomic<ncclComm*> g_handles{nullptr};

namespace {

constexpr size_t kRetired = 1024;  // a handle is reused only after so many others, so that a stale one is recognised

struct Region {
  std::mutex mutex;
  size_t used = 0;
  std::deque<ncclComm*> retired;
};

Region& region() {
  static auto* const kRegion = new Region;  // never destroyed: threads may outlive main()
  return *kRegion;
}

struct ThisThread {
  std::string error;
  ncclComm_t error_of = nullptr;
};
thread_local ThisThread t_this;

/// Under the region's lock.
ncclComm* fresh_handle(Region& r) {
  if (r.retired.size() > kRetired || (r.used == kMaxHandles && !r.retired.empty())) {
    ncclComm* const again = r.retired.front();
    r.retired.pop_front();
    again->~ncclComm();
    return again;
  }
  if (r.used == kMaxHandles) refuse(ncclSystemError, "this process has 65536 communicators, which are the most");
  if (g_handles.load(std::memory_order_relaxed) == nullptr) {
    void* const memory = mmap(nullptr, kMaxHandles * sizeof(ncclComm), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    g_handles.store(static_cast<ncclComm*>(memory), std::memory_order_release);
  }
  return g_handles.load(std::memory_order_relaxed) + r.used++;
}

void give_back(ncclComm* handle, ncclComm::State state) {
  handle->state.store(state, std::memory_order_release);
  Region& r = region();
  const std::lock_guard lock(r.mutex);
  r.retired.push_back(handle);
}

}  // namespace

ncclComm* make_handle() {
  Region& r = region();
  const std::lock_guard lock(r.mutex);
  auto* const handle = new (fresh_handle(r)) ncclComm;
  handle->state.store(ncclComm::State::Making, std::memory_order_release);
  return handle;
}

void retire_handle(ncclComm* handle) {
  {
    const std::lock_guard lock(handle->mutex);
    // Their communicator is gone, and with it what others could write to: the handles remain to be freed.
    for (const auto& [window, of] : handle->windows) {
      if (of.window != nullptr) tuttiWindowDeregister(of.window);
    }
    for (const tuttiWindow_t window : handle->signals) tuttiWindowDeregister(window);
    handle->windows.clear();
    handle->signals = decltype(handle->signals)();
    handle->late_scalars = decltype(handle->late_scalars)();  // frees its memory, which `= {}` would keep
  }
  give_back(handle, ncclComm::State::Gone);
}

void drop_handle(ncclComm* handle) { give_back(handle, ncclComm::State::Unused); }

void refuse_handle(ncclComm_t comm) {
  if (comm == nullptr) refuse_argument("comm is NULL");
  const auto state = is_handle(comm) ? comm->state.load(std::memory_order_acquire) : ncclComm::State::Unused;
  if (state == ncclComm::State::Gone)
    refuse_argument("comm was destroyed or aborted: a call came after ncclCommDestroy or ncclCommAbort");
  if (state == ncclComm::State::Making)
    refuse_argument("comm is still being made: it is valid after the outermost ncclGroupEnd");
  refuse_argument("comm is not a communicator: it was never set, or was overwritten");
}

void set_error(const char* text, ncclComm_t comm) {
  try {
    t_this.error = text;
    t_this.error_of = comm;
  } catch (const std::bad_alloc&) {
    t_this.error.clear();
  }
}

const char* last_error(ncclComm_t comm) {
  if (comm == nullptr || t_this.error_of == comm) return t_this.error.c_str();
  if (is_handle(comm) && comm->state.load(std::memory_order_acquire) == ncclComm::State::Live) {
    const char* const text = tuttiCommGetErrorText(comm->comm);
    if (*text != '\0') return text;
  }
  return t_this.error.c_str();
}

ncclResult_t failed(tuttiResult_t result, ncclComm_t comm) {
  set_error(tuttiGetLastError(), comm);
  const auto code = static_cast<size_t>(result);
  return code < kResults.size() ? kResults[code] : ncclInternalError;
}

ncclResult_t of_exception(ncclComm_t comm) noexcept {
  try {
    throw;
  } catch (const Refusal& refusal) {
    set_error(refusal.what(), comm);
    return refusal.code;
  } catch (const std::bad_alloc&) {
    set_error("out of memory", comm);
    return ncclSystemError;
  } catch (const std::exception& error) {
    set_error(error.what(), comm);
    return ncclInternalError;
  }
}

}  // namespace tutti::nccl
