// Windows and one-sided calls. A buffer in host memory becomes a window of Tutti's; one of a GPU is registered, which
// is a hint for collectives, and one-sided calls refuse it.
//
// NCCL's signals belong to a communicator and a context, Tutti's to a window: windows without memory count them. They
// are made with the first window of host memory, since that is where all ranks are.
#include <string>
#include <utility>

#include "compat/nccl/arguments.hpp"
#include "compat/nccl/registering.hpp"
#include "tutti/types.hpp"

namespace tutti::nccl {
namespace {

constexpr int kMaxSignals = 64;  // of a communicator: numRmaCtx times numRmaSig

int signals_of(const ncclComm& comm) {
  const int64_t all = int64_t{comm.contexts} * comm.signals_of_each;
  return static_cast<int>(std::min<int64_t>(all, kMaxSignals));
}

void keep_window(ncclComm& comm, ncclWindow_t window, const ncclComm::Window& of) {
  const std::lock_guard lock(comm.mutex);
  comm.windows[window] = of;
}

/// The windows that count signals: all ranks have asked for the same number.
ncclResult_t make_signals(ncclComm& comm) {
  {
    const std::lock_guard lock(comm.mutex);
    if (!comm.signals.empty()) return ncclSuccess;
  }
  std::vector<tuttiWindow_t> made;
  for (int first = 0; first < signals_of(comm); first += TUTTI_SIGNALS) {
    tuttiWindow_t window = nullptr;
    const ncclResult_t result = moved(tuttiWindowRegister(comm.comm, nullptr, 0, &window), &comm);
    if (result != ncclSuccess) return result;
    made.push_back(window);
  }
  const std::lock_guard lock(comm.mutex);
  comm.signals = std::move(made);
  return ncclSuccess;
}

ncclResult_t register_host(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window) {
  ncclResult_t result = make_signals(*comm);
  if (result != ncclSuccess) return result;
  tuttiWindow_t made = nullptr;
  result = moved(tuttiWindowRegister(comm->comm, buffer, size, &made), comm);
  if (result != ncclSuccess) return result;
  *window = reinterpret_cast<ncclWindow_t>(made);
  keep_window(*comm, *window, {.buffer = buffer, .host = made});
  return ncclSuccess;
}

/// As ncclCommRegister, by each rank alone.
ncclResult_t register_hint(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window) {
  check_range(buffer, size);
  uint64_t registration = 0;
  const ncclResult_t result = add_buffer(comm, buffer, size, registration);
  *window = reinterpret_cast<ncclWindow_t>(registration);
  if (*window != nullptr) keep_window(*comm, *window, {.buffer = buffer});
  return result;
}

/// Throws Refusal where it is none of this communicator.
ncclComm::Window window_of(ncclComm& comm, ncclWindow_t window) {
  const std::lock_guard lock(comm.mutex);
  const auto found = comm.windows.find(window);
  if (found == comm.windows.end()) {
    refuse_argument("win is no window of this communicator: each rank passes what ncclCommWindowRegister gave to it");
  }
  return found->second;
}

/// Runs now, or, as it waits for all ranks, at the end of the group.
ncclResult_t run_collectively(ncclComm_t comm, std::function<ncclResult_t()> work) {
  if (group_depth() == 0) return work();
  add_maker(std::move(work), comm);
  return ncclSuccess;
}

/// Where a signal is counted.
struct Signal {
  tuttiWindow_t window = nullptr;
  int number = 0;
};

/// Throws Refusal.
Signal signal_of(ncclComm& comm, int number, int context) {
  if (context < 0 || context >= comm.contexts) {
    refuse_argument("ctx is ", context, ": numRmaCtx is ", comm.contexts, ", so it is from 0 to ", comm.contexts - 1);
  }
  if (number < 0 || number >= comm.signals_of_each) {
    refuse_argument("sigIdx is ", number, ": numRmaSig is ", comm.signals_of_each, ", so it is from 0 to ",
                    comm.signals_of_each - 1);
  }
  const int64_t index = int64_t{context} * comm.signals_of_each + number;
  if (index >= kMaxSignals) {
    refuse_argument("signal ", number, " of context ", context, " is none of the first ", kMaxSignals,
                    ", of all contexts together, which Tutti has");
  }
  const std::lock_guard lock(comm.mutex);
  if (comm.signals.empty()) {
    refuse(
        ncclInvalidUsage,
        "there are no signals yet: all ranks register a window of host memory first. Tutti has no one-sided calls on "
        "memory of GPUs: use ncclSend, and ncclRecv on the other rank");
  }
  return {comm.signals[static_cast<size_t>(index) / TUTTI_SIGNALS], static_cast<int>(index) % TUTTI_SIGNALS};
}

void check_flags(unsigned flags) {
  if (flags != 0) refuse_argument("flags is ", flags, ": it must be 0");
}

/// Of `count` elements. Throws Refusal.
size_t bytes_of(size_t count, const ncclDataType_t& type) {
  const size_t each = size_of(static_cast<DType>(type_of(type)));
  if (count > SIZE_MAX / each) refuse_argument("count is ", count, ": so many elements have no place in memory");
  return count * each;
}

/// Where a put goes. Throws Refusal.
tuttiWindow_t target_of(ncclComm& comm, ncclWindow_t window, const void* local) {
  const tuttiWindow_t of = window_of(comm, window).host;
  if (of == nullptr || (has_driver() && is_device_memory(local))) {
    refuse(
        ncclInvalidUsage, of == nullptr ? "win" : "localbuff",
        " is memory of a GPU: Tutti has one-sided calls on host memory only. Use ncclSend, and ncclRecv on the other "
        "rank");
  }
  return of;
}

}  // namespace

ncclResult_t end_signals(ncclComm& comm) {
  std::vector<tuttiWindow_t> ended;
  {
    const std::lock_guard lock(comm.mutex);
    for (const auto& [window, of] : comm.windows) {
      if (of.host != nullptr) return ncclSuccess;
    }
    ended.swap(comm.signals);
  }
  for (const tuttiWindow_t window : ended) {
    const ncclResult_t result = moved(tuttiWindowDeregister(window), &comm);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT: this file is the border

TUTTI_NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window,
               int flags) {
  return guarded(comm, [&] {
    const ncclComm& handle = live(comm);
    constexpr int kKnown =
        NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;
    if ((flags & ~kKnown) != 0) refuse_argument("winFlags is ", flags, ": it has unknown flags");
    required(window, "win") = nullptr;
    const bool on_device = buffer != nullptr && has_driver() && is_device_memory(buffer);
    if (on_device || (buffer == nullptr && handle.device >= 0)) return register_hint(comm, buffer, size, window);
    return run_collectively(comm, [=] { return register_host(comm, buffer, size, window); });
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    ncclComm::Window of;
    {
      const std::lock_guard lock(handle.mutex);
      const auto found = handle.windows.find(window);
      if (found != handle.windows.end()) of = found->second;
      if (of.host != nullptr) handle.windows.erase(found);
    }
    if (of.host != nullptr) {
      return run_collectively(comm, [=] { return moved(tuttiWindowDeregister(of.host), comm); });
    }
    const ncclResult_t result = done(tuttiCommDeregister(handle.comm, reinterpret_cast<uintptr_t>(window)), comm);
    if (result != ncclSuccess) return result;
    const std::lock_guard lock(handle.mutex);
    handle.windows.erase(window);
    return ncclSuccess;
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t window, void** pointer) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    void*& out = required(pointer, "outUserPtr");
    if (window == nullptr) refuse_argument("win is NULL, as ncclCommWindowRegister returns it where nothing is gained");
    out = window_of(handle, window).buffer;
    return ncclSuccess;
  });
}

// The signal follows: Tutti's are seen after all that its rank has put before, into whatever windows.
TUTTI_NCCL_API(ncclResult_t, ncclPutSignal, const void* local, size_t count, ncclDataType_t type, int peer,
               ncclWindow_t window, size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
               cudaStream_t stream) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    const size_t bytes = bytes_of(count, type);
    check_flags(flags);
    const Signal at = signal_of(handle, signal, context);
    const tuttiStream_t on = stream_of(stream, nullptr);
    const tuttiWindow_t into = target_of(handle, window, local);
    const ncclResult_t result = moved(tuttiPut(local, bytes, peer, offset, into, on), comm);
    return result != ncclSuccess ? result : moved(tuttiSignal(peer, at.number, at.window, on), comm);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclSignal, int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
               cudaStream_t stream) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    check_flags(flags);
    const Signal at = signal_of(handle, signal, context);
    return moved(tuttiSignal(peer, at.number, at.window, stream_of(stream, nullptr)), comm);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclWaitSignal, int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm,
               cudaStream_t stream) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    if (count < 0) refuse_argument("nDesc is ", count);
    if (count > 0) required(signals, "signalDescs");
    std::vector<Signal> all;  // before any is waited for
    int ranks = 0;
    const ncclResult_t known = done(tuttiCommCount(handle.comm, &ranks), comm);
    if (known != ncclSuccess) return known == ncclInProgress ? ncclInvalidArgument : known;
    for (int i = 0; i < count; ++i) {
      const ncclWaitSignalDesc_t& of = signals[i];
      if (of.opCnt < 0) refuse_argument("signalDescs[", i, "].opCnt is ", of.opCnt);
      if (of.peer < 0 || of.peer >= ranks) {
        refuse_argument("signalDescs[", i, "].peer is ", of.peer, ": there are ranks 0 to ", ranks - 1);
      }
      all.push_back(signal_of(handle, of.sigIdx, of.ctx));
    }
    const tuttiStream_t on = stream_of(stream, nullptr);
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < count && result == ncclSuccess; ++i) {
      const Signal& at = all[static_cast<size_t>(i)];
      if (signals[i].opCnt == 0) continue;
      result = moved(
          tuttiWaitSignal(signals[i].peer, at.number, static_cast<uint64_t>(signals[i].opCnt), at.window, on), comm);
    }
    return result;
  });
}
