#include "api.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

namespace fake {
namespace {

std::map<std::string, uint64_t>& counts() {
  static auto& the_counts = *new std::map<std::string, uint64_t>;
  return the_counts;
}

std::map<std::string, CUresult>& refusals() {
  static auto& the_refusals = *new std::map<std::string, CUresult>;
  return the_refusals;
}

uint64_t draining_calls = 0;

// The stream of this thread in a context (CU_STREAM_PER_THREAD).
Stream& thread_stream(Context& context) {
  thread_local std::map<Context*, Stream*> mine;
  Stream*& stream = mine[&context];
  if (stream == nullptr) {
    context.streams.push_back(std::make_unique<Stream>());
    stream = context.streams.back().get();
    stream->context = &context;
    stream->id = new_id();
    stream->queue = context.next_queue++ % config().queues;
  }
  return *stream;
}

}  // namespace

int& depth() {
  thread_local int depth = 0;
  return depth;
}

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

std::vector<Context*>& current_contexts() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Context* begin_call(const char* name, unsigned need) {
  ++counts()[name];
  if (const auto refused = refusals().find(name); refused != refusals().end()) fail(refused->second);
  require((need & kInitialised) == 0 || state().initialised, CUDA_ERROR_NOT_INITIALIZED);
  auto& stack = current_contexts();
  Context* context = stack.empty() ? nullptr : stack.back();
  if ((need & kContext) == kContext) {
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    require(state().find(reinterpret_cast<CUcontext>(context)) != nullptr, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    require(context->error == CUDA_SUCCESS, context->error);
  }
  if ((need & kUnsafe) != 0) forbid_in_capture();
  return context;
}

void Call::drain(Stream& stream) {
  const auto mark = std::make_shared<Mark>();
  enqueue(stream, [mark] {
    precede(&mark->tsan);
    return mark->done = true;
  });
  wait([&] { return mark->done; });
  follow(&mark->tsan);
}

void Call::drain() {
  wait([this] { return idle(context); });
  for (Stream* stream : streams_of(*context)) follow(&stream->tsan);
}

void Call::drain_process() {
  ++draining_calls;
  if (!config().drains) return;
  state().done.wait(lock, [&] { return idle(nullptr) || (context != nullptr && context->error != CUDA_SUCCESS); });
  require(context == nullptr || context->error == CUDA_SUCCESS, context->error);
}

Stream& stream_of(Call& call, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    // It would wait for the capturing streams.
    for (auto& stream : call.context->streams) {
      if (stream->capture == nullptr || (stream->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
      stream->capture->invalid = true;
      fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    return *call.context->legacy;
  }
  if (handle == CU_STREAM_PER_THREAD) return thread_stream(*call.context);
  for (Context* context : state().contexts()) {
    for (auto& stream : context->streams) {
      if (reinterpret_cast<CUstream>(stream.get()) == handle && !stream->destroyed) return *stream;
    }
  }
  fail(CUDA_ERROR_INVALID_HANDLE);
}

Event& event_of(CUevent handle) {
  for (auto& event : state().events) {
    if (reinterpret_cast<CUevent>(event.get()) == handle) return *event;
  }
  fail(CUDA_ERROR_INVALID_HANDLE);
}

Kernel& kernel_of(CUfunction handle) {
  for (auto& library : state().libraries) {
    for (auto& kernel : library->kernels) {
      if (reinterpret_cast<CUfunction>(kernel.get()) == handle) return *kernel;
    }
  }
  for (auto& function : state().functions) {
    if (reinterpret_cast<CUfunction>(function.get()) == handle) return *function;
  }
  fail(CUDA_ERROR_INVALID_HANDLE);
}

void submit(Call& call, Stream& stream, CUgraphNodeType type, Maker make) {
  if (stream.capture == nullptr) {
    require(stream.context->error == CUDA_SUCCESS, stream.context->error);
    const Queue& queue = stream.context->queues[stream.queue];
    if (config().bounds_queues) call.wait([&] { return queue.length < kQueueLength; });
    return enqueue(stream, make());
  }
  require(!stream.capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<Node>(Node{type, std::move(make), stream.tail}));
  stream.tail = {reinterpret_cast<CUgraphNode>(nodes.back().get())};
}

}  // namespace fake

/// Whether this thread is in an entry point: for tests that count its system calls.
extern "C" int fake_cuda_inside() { return fake::depth(); }

/// How often an entry point was called, by its name in the headers ("cuMemAlloc"): for tests of a launch path.
extern "C" uint64_t fake_cuda_calls(const char* name) {
  const std::lock_guard lock(fake::state().mutex);
  return fake::counts()[name];
}

/// From now on this entry point fails with `result`; 0: no more.
extern "C" void fake_cuda_refuse(const char* name, int result) {
  const std::lock_guard lock(fake::state().mutex);
  fake::refusals().erase(name);
  if (result != 0) fake::refusals()[name] = static_cast<CUresult>(result);
}

/// How many calls have allocated, registered, mapped, loaded or instantiated: those that "drain" makes wait.
extern "C" uint64_t fake_cuda_draining_calls() {
  const std::lock_guard lock(fake::state().mutex);
  return fake::draining_calls;
}
