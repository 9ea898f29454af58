// What every entry point does first: lock, look at the rules that hold for all, count the call.
#pragma once

#include <cuda.h>

#include "capture.hpp"
#include "sanitizers.hpp"
#include "state.hpp"

namespace fake {

/// What a call needs, and what is forbidden to it.
enum Need : unsigned {
  kNothing = 0,
  kInitialised = 1,
  kContext = 2 | kInitialised,  ///< a current context, without a sticky error
  kUnsafe = 4,                  ///< it may not be made while a stream captures (CU_STREAM_CAPTURE_MODE_*)
  kDrains = 8,                  ///< with the rule "drain" it waits for all work of the process
};

struct Call {
  std::unique_lock<std::mutex>& lock;
  Context* context;  ///< the current one

  /// Waits until `ready()`; a sticky error of the context ends the wait.
  template <class Ready>
  void wait(Ready ready) {
    state().done.wait(lock, [&] { return context->error != CUDA_SUCCESS || ready(); });
    require(context->error == CUDA_SUCCESS, context->error);
  }
  /// Waits until all work of the stream that is there now is done. Not for a capturing stream.
  void drain(Stream& stream);
  /// Waits until the context has nothing to do.
  void drain();
  /// Waits until the process has nothing to do.
  void drain_process();
};

/// The contexts that this thread has made current.
std::vector<Context*>& current_contexts();

/// Fails if the rules forbid the call. Counts it.
Context* begin_call(const char* name, unsigned need);

/// Entry points that this thread is in.
int& depth();

/// The body of an entry point. `body(Call&)` throws Failure.
template <class Body>
CUresult call(const char* name, unsigned need, Body body) {
  const Unseen unseen;
  struct Inside {
    Inside() { ++depth(); }
    ~Inside() { --depth(); }
  } const inside;
  try {
    std::unique_lock lock(state().mutex);
    Call one{lock, begin_call(name, need)};
    if ((need & kDrains) != 0) one.drain_process();
    body(one);
    return CUDA_SUCCESS;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// Handles: each fails with CUDA_ERROR_INVALID_HANDLE if there is no such object.
Stream& stream_of(Call& call, CUstream handle);
Event& event_of(CUevent handle);
Kernel& kernel_of(CUfunction handle);

const std::shared_ptr<Physical>& physical_of(CUmemGenericAllocationHandle handle);
Stream& new_stream(Context& context, unsigned flags, int priority);
/// A new handle of it.
CUmemGenericAllocationHandle keep_handle(const std::shared_ptr<Physical>& physical);
/// A multicast object.
std::shared_ptr<Physical> new_team(size_t bytes, uint32_t devices, unsigned handle_types);

/// Appends an operation to the stream, or a node to the graph that it captures. `make()` gives a turn() for each
/// execution.
void submit(Call& call, Stream& stream, CUgraphNodeType type, Maker make);

template <class... Pointers>
void require_pointers(Pointers... pointers) {
  require((... && (pointers != nullptr)), CUDA_ERROR_INVALID_VALUE);
}

uint64_t now_ns();

}  // namespace fake
