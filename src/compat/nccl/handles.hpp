// The handles of NCCL's interface, this thread's errors and groups.
#pragma once

#include <atomic>
#include <concepts>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "compat/nccl/convert.hpp"

/// Handles lie in one region, so that any pointer can be checked without reading what it points to.
struct ncclComm {
  enum class State : int { Unused, Making, Live, Gone };
  std::atomic<State> state{State::Unused};
  std::atomic<bool> revoked{false};
  std::atomic<bool> suspended{false};
  int device = -1;             ///< CUDA's number; -1: none
  tuttiComm_t comm = nullptr;  ///< constant while Live
  int contexts = 1;            ///< of one-sided calls (numRmaCtx), …
  int signals_of_each = 8;     ///< … with so many signals (numRmaSig)
  std::mutex mutex;            ///< guards what follows
  /// Operators whose scalar, on the host, is read at each call: its address and type; null: destroyed.
  std::vector<std::pair<const void*, tuttiDataType_t>> late_scalars;
  struct Window {
    void* buffer = nullptr;          ///< of this rank
    tuttiWindow_t window = nullptr;  ///< null: GPUs do not reach each other's, so one-sided calls do not know it
    uint64_t registration = 0;       ///< of memory of a GPU, for collectives; 0: it is of no use to them
    bool is_on_device = false;
  };
  std::map<ncclWindow_t, Window> windows;  ///< those that are registered
  std::vector<tuttiWindow_t> signals;      ///< count signals; made with the first window
  bool signals_on_device = false;          ///< streams of GPUs send them and wait for them
  bool grows = false;                      ///< ncclCommGetUniqueId has made an id that no ncclCommGrow has used
};

namespace tutti::nccl {

/// A call that is refused here, before Tutti.
struct Refusal : std::runtime_error {
  Refusal(ncclResult_t result, const std::string& text) : std::runtime_error(text), code(result) {}
  ncclResult_t code;
};
inline std::string text_of(std::string text) { return text; }
template <std::integral Number>
std::string text_of(Number number) {
  return std::to_string(number);
}
/// The reason is what the parts say, texts and numbers.
template <class... Parts>
[[noreturn]] void refuse(ncclResult_t code, Parts... parts) {
  throw Refusal(code, (text_of(parts) + ...));
}
template <class... Parts>
[[noreturn]] void refuse_argument(Parts... parts) {
  refuse(ncclInvalidArgument, parts...);
}

/// A new handle, Making. Throws Refusal where too many are in use.
ncclComm* make_handle();
/// Unused, at once: nobody else has seen it.
void drop_handle(ncclComm* handle);
/// Gone; reused after many others.
void retire_handle(ncclComm* handle);

/// Throws the reason why this is no live communicator.
[[noreturn]] void refuse_handle(ncclComm_t comm);
/// The region's bounds; null before the first handle.
extern std::atomic<ncclComm*> g_handles;
inline constexpr size_t kMaxHandles = 65536;

inline bool is_handle(ncclComm_t comm) {
  const auto first = reinterpret_cast<uintptr_t>(g_handles.load(std::memory_order_acquire));
  const uintptr_t offset = reinterpret_cast<uintptr_t>(comm) - first;
  return first != 0 && offset < kMaxHandles * sizeof(ncclComm) && offset % sizeof(ncclComm) == 0;
}
/// The communicator of a handle. Throws Refusal.
inline ncclComm& live(ncclComm_t comm) {
  if (!is_handle(comm) || comm->state.load(std::memory_order_acquire) != ncclComm::State::Live) refuse_handle(comm);
  return *comm;
}

/// An output argument. Throws Refusal for null.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) refuse_argument(std::string(name) + " is NULL");
  return *pointer;
}

/// The text of this thread's last failure, and whose it was (null: no communicator's).
void set_error(const char* text, ncclComm_t comm = nullptr);
const char* last_error(ncclComm_t comm);

/// Tutti's result as NCCL's; an error's text is kept.
ncclResult_t failed(tuttiResult_t result, ncclComm_t comm);
inline ncclResult_t done(tuttiResult_t result, ncclComm_t comm = nullptr) {
  return result == tuttiSuccess ? ncclSuccess : failed(result, comm);
}

// ---- groups: a failed call makes the outermost ncclGroupEnd return its code, and run nothing, as in NCCL

int group_depth();
/// Remembers the first failure in this thread's group, if there is one.
void note_in_group(ncclResult_t result);
/// Within a group, what a communicator is when the group has ended.
struct Pending {
  ncclComm* handle;
  ncclComm_t* out;
};
void add_pending(Pending pending);
/// Something that all ranks do and wait for each other in, such as making a communicator, at the end of the group,
/// beside those of the group's other calls. Those of one communicator, if it is given, run in their order.
void add_maker(std::function<ncclResult_t()> maker, ncclComm_t of = nullptr);

/// What any exception means. Call within a catch clause.
ncclResult_t of_exception(ncclComm_t comm) noexcept;

/// Runs a function of NCCL's interface.
template <class Function>
[[gnu::always_inline]] inline ncclResult_t guarded(ncclComm_t comm, Function&& function) noexcept {
  ncclResult_t result;
  try {
    result = function();
  } catch (...) {
    result = of_exception(comm);
  }
  if (result != ncclSuccess) [[unlikely]]
    note_in_group(result);
  return result;
}

}  // namespace tutti::nccl

/// Begins the definition of a function of NCCL's: its result, name and parameters. It also gets its second name, p….
#define TUTTI_NCCL_API(result, name, ...)                                                 \
  extern "C" __attribute__((visibility("default"), alias(#name))) decltype(name) p##name; \
  extern "C" __attribute__((visibility("default"))) result name(__VA_ARGS__)
