// Windows and one-sided calls. A buffer becomes a window of Tutti's. One of a GPU is registered too, which is a hint
// for collectives; where GPUs do not reach each other's memory it is that alone, and one-sided calls refuse it.
//
// NCCL's signals belong to a communicator and a context, Tutti's to a window: windows of their own count them. They are
// made with the first window, since that is where all ranks are; in memory of GPUs, so that streams wait for signals,
// where the communicator's ranks have such.
#include <map>
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

constexpr size_t kSignalBytes = 8;  // of a window that counts signals in memory of a GPU: it must have some

/// Memory of a GPU for such windows, which may overlap: one for all communicators of the process, never freed. Null:
/// there is none.
void* signal_memory(int device) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, void*>;
  const std::lock_guard lock(mutex);
  void*& memory = all[device];
  if (memory != nullptr && is_device_memory(memory)) return memory;  // else the program has reset the GPU
  const Context before;
  Context(device).use();
  if (tuttiMemAllocWithFlags(&memory, kSignalBytes, TUTTI_MEM_DEVICE) != tuttiSuccess) memory = nullptr;
  before.use();
  return memory;
}

/// All ranks have asked for the same number. The parts are of these bytes.
tuttiResult_t register_signals(ncclComm& comm, void* memory, size_t bytes, std::vector<tuttiWindow_t>& made) {
  for (int first = 0; first < signals_of(comm); first += TUTTI_SIGNALS) {
    tuttiWindow_t window = nullptr;
    const tuttiResult_t result = tuttiWindowRegister(comm.comm, memory, bytes, &window);
    if (result != tuttiSuccess) return result;
    made.push_back(window);
  }
  return tuttiSuccess;
}

/// Where all ranks have made so many, and no more.
void deregister_all(std::vector<tuttiWindow_t>& made) {
  for (const tuttiWindow_t window : made) (void)tuttiWindowDeregister(window);
  made.clear();
}

/// Do streams count the signals of this window? All ranks have the same answer, also if one has no memory of its GPU
/// left for it, and gave an empty part.
bool is_on_device(const ncclComm& comm, tuttiWindow_t window) {
  int ranks = 0;
  if (tuttiCommCount(comm.comm, &ranks) != tuttiSuccess) return false;
  for (int peer = 0; peer < ranks; ++peer) {
    size_t bytes = 0;
    if (tuttiWindowSize(window, peer, &bytes) == tuttiSuccess && bytes > 0) return true;
  }
  return false;
}

/// The windows that count signals. Ranks without a GPU give empty parts, which go with the others.
ncclResult_t make_signals(ncclComm& comm) {
  {
    const std::lock_guard lock(comm.mutex);
    if (!comm.signals.empty()) return ncclSuccess;
  }
  std::vector<tuttiWindow_t> made;
  void* const memory = comm.device >= 0 && has_driver() ? signal_memory(comm.device) : nullptr;
  tuttiResult_t result = register_signals(comm, memory, memory != nullptr ? kSignalBytes : 0, made);
  if (result == tuttiUnsupported) {  // on all ranks
    deregister_all(made);
    result = register_signals(comm, nullptr, 0, made);
  }
  if (result != tuttiSuccess) {
    const ncclResult_t failed = moved(result, &comm);
    deregister_all(made);
    return failed;
  }
  const bool on_device = !made.empty() && is_on_device(comm, made.front());
  const std::lock_guard lock(comm.mutex);
  comm.signals = std::move(made);
  comm.signals_on_device = on_device;
  return ncclSuccess;
}

/// For collectives alone, as ncclCommRegister, by each rank alone.
ncclResult_t register_hint(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window) {
  check_range(buffer, size);
  uint64_t registration = 0;
  const ncclResult_t result = add_buffer(comm, buffer, size, registration);
  *window = reinterpret_cast<ncclWindow_t>(registration);
  if (*window != nullptr) {
    keep_window(*comm, *window, {.buffer = buffer, .registration = registration, .is_on_device = true});
  }
  return result;
}

ncclResult_t register_window(ncclComm_t comm, void* buffer, size_t size, bool on_device, ncclWindow_t* window) {
  ncclResult_t result = make_signals(*comm);
  if (result != ncclSuccess) return result;
  tuttiWindow_t made = nullptr;
  const tuttiResult_t registered = tuttiWindowRegister(comm->comm, buffer, size, &made);
  if (registered == tuttiUnsupported && (on_device || buffer == nullptr)) {  // on all ranks
    tuttiLog("info", (std::string("the window is a hint for collectives alone: ") + tuttiGetLastError()).c_str());
    return on_device ? register_hint(comm, buffer, size, window) : ncclSuccess;
  }
  result = moved(registered, comm);
  if (result != ncclSuccess) return result;
  ncclComm::Window of{.buffer = buffer, .window = made, .is_on_device = on_device};
  *window = reinterpret_cast<ncclWindow_t>(made);
  if (on_device && size > 0 && add_buffer(comm, buffer, size, of.registration) != ncclSuccess) {  // on this rank alone
    tuttiLog("warn", (std::string("the window is of no use to collectives: ") + tuttiGetLastError()).c_str());
    of.registration = 0;
  }
  keep_window(*comm, *window, of);
  return ncclSuccess;
}

ncclResult_t deregister_window(ncclComm_t comm, const ncclComm::Window& of) {
  ncclResult_t result = ncclSuccess;
  if (of.registration != 0) result = done(tuttiCommDeregister(comm->comm, of.registration), comm);
  const ncclResult_t ended = moved(tuttiWindowDeregister(of.window), comm);
  return result != ncclSuccess ? result : ended;
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
    refuse(ncclInvalidUsage, "there are no signals yet: all ranks register a window (ncclCommWindowRegister) first");
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

/// A stream for signals. With NULL the calls block; so they do on CUDA's other names of default streams, unless streams
/// of GPUs send them and wait for them.
tuttiStream_t stream_of_signals(const ncclComm& comm, cudaStream_t stream) {
  if (!comm.signals_on_device) return stream_of(stream, nullptr);
  return reinterpret_cast<tuttiStream_t>(stream);
}

/// Where a put goes. Throws Refusal.
ncclComm::Window target_of(ncclComm& comm, ncclWindow_t window, const void* local) {
  const ncclComm::Window of = window_of(comm, window);
  if (of.window == nullptr) {
    refuse(
        ncclInvalidUsage,
        "win is memory of a GPU that other ranks' GPUs do not reach, so it is of use to collectives alone (the log has "
        "the reason). Use ncclSend, and ncclRecv on the other rank");
  }
  if (!of.is_on_device && has_driver() && is_device_memory(local)) {
    refuse(ncclInvalidUsage, "localbuff is memory of a GPU, and win is memory of the host: both are of one kind");
  }
  return of;
}

}  // namespace

ncclResult_t end_signals(ncclComm& comm) {
  std::vector<tuttiWindow_t> ended;
  {
    const std::lock_guard lock(comm.mutex);
    for (const auto& [window, of] : comm.windows) {
      if (of.window != nullptr) return ncclSuccess;
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
    live(comm);
    constexpr int kKnown =
        NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;
    if ((flags & ~kKnown) != 0) refuse_argument("winFlags is ", flags, ": it has unknown flags");
    required(window, "win") = nullptr;
    const bool on_device = buffer != nullptr && has_driver() && is_device_memory(buffer);
    return run_collectively(comm, [=] { return register_window(comm, buffer, size, on_device, window); });
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
      if (of.window != nullptr) handle.windows.erase(found);
    }
    if (of.window != nullptr) return run_collectively(comm, [=] { return deregister_window(comm, of); });
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
    const ncclComm::Window into = target_of(handle, window, local);
    const tuttiStream_t of_signals = stream_of_signals(handle, stream);
    const tuttiStream_t on = into.is_on_device ? of_signals : stream_of(stream, nullptr);
    ncclResult_t result = moved(tuttiPut(local, bytes, peer, offset, into.window, on), comm);
    if (result == ncclSuccess && handle.signals_on_device && !into.is_on_device) {  // they take different ways
      result = moved(tuttiFlush(peer, into.window, on), comm);
    }
    return result != ncclSuccess ? result : moved(tuttiSignal(peer, at.number, at.window, of_signals), comm);
  });
}

TUTTI_NCCL_API(ncclResult_t, ncclSignal, int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
               cudaStream_t stream) {
  return guarded(comm, [&] {
    ncclComm& handle = live(comm);
    check_flags(flags);
    const Signal at = signal_of(handle, signal, context);
    return moved(tuttiSignal(peer, at.number, at.window, stream_of_signals(handle, stream)), comm);
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
    const tuttiStream_t on = stream_of_signals(handle, stream);
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
