// The thread that does all work of the process's fake GPUs: it takes items from the streams in an order that a driver
// may take, and lets the threads of resident blocks run in turn.
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "faults.hpp"
#include "sanitizers.hpp"
#include "state.hpp"

namespace fake {
namespace {

constexpr uint32_t kTurns = 512;  // of threads, between looks at the streams
constexpr unsigned kYields = 64;  // turns without progress, before the engine sleeps
constexpr auto kShortSleep = std::chrono::microseconds(50);

bool older_work(const Stream& stream, uint64_t order) {
  return !stream.works.empty() && stream.works.front()->order < order;
}

// The legacy stream waits for all blocking streams, and they for it.
bool waits_for_legacy(const Stream& stream, uint64_t order) {
  const Context& context = *stream.context;
  if (!stream.legacy) return (stream.flags & CU_STREAM_NON_BLOCKING) == 0 && older_work(*context.legacy, order);
  for (const auto& other : context.streams) {
    if ((other->flags & CU_STREAM_NON_BLOCKING) == 0 && older_work(*other, order)) return true;
  }
  return false;
}

// To ThreadSanitizer: this work follows what the caller did before it gave it, and what it waited for.
void order_start(Stream& stream, Work& work) {
  follow(&work.tsan);
  const auto follow_all = [&](Stream& other) {
    if ((other.flags & CU_STREAM_NON_BLOCKING) == 0) follow(&other.tsan);
  };
  if (!stream.legacy && (stream.flags & CU_STREAM_NON_BLOCKING) == 0) follow_all(*stream.context->legacy);
  if (!stream.legacy) return;
  for (auto& other : stream.context->streams) follow_all(*other);
}

// Lets the work go on. True when it has ended.
bool take_turn(Stream& stream, Work& work, bool first) {
  state().turning = &stream;
  stream.thread.enter();
  if (first) order_start(stream, work);
  CUresult error = CUDA_SUCCESS;
  bool ended = false;
  try {
    ended = work.turn();
  } catch (const Failure& failure) {
    error = failure.code;
  }
  if (ended) precede(&stream.tsan);
  stream.thread.leave();
  if (error != CUDA_SUCCESS) {
    state().machines[stream.context->device]->kill();
    set_error(*stream.context, error);  // the work is gone
  }
  return ended;
}

// Starts and ends what can of one stream. Whether anything started or ended.
bool advance(Stream& stream) {
  bool progress = false;
  while (!stream.works.empty()) {
    Work& work = *stream.works.front();
    Queue& queue = stream.context->queues[stream.queue];
    const bool first = !work.started;
    if (first) {
      if (queue.not_started.front() != work.order || waits_for_legacy(stream, work.order)) break;
      work.started = true;
      queue.not_started.pop_front();
      progress = true;
    }
    if (!take_turn(stream, work, first)) break;
    stream.works.pop_front();
    --queue.length;
    progress = true;
  }
  return progress;
}

uint64_t random_number() {
  static Random random(~0ULL);
  return random.next();
}

bool advance_streams() {
  bool progress = false;
  for (Context* context : state().contexts()) {
    std::vector<Stream*> streams = streams_of(*context);
    const size_t first = random_number() % streams.size();
    for (size_t i = 0; i < streams.size(); ++i) progress |= advance(*streams[(first + i) % streams.size()]);
    std::erase_if(context->streams, [](const auto& stream) { return stream->destroyed && stream->works.empty(); });
  }
  return progress;
}

void report_fault(int device) {
  const auto code = static_cast<CUresult>(Machine::fault_code);
  std::string text = Machine::fault_text;
  if (Machine::fault_address != nullptr) text += memory().describe(Machine::fault_address, device);
  std::fprintf(stderr, "fake cuda: device %d: %s\n", device, text.c_str());
  Machine::fault_code = 0;
  Machine::fault_address = nullptr;
  state().machines[device]->kill();
  for (Context* context : state().contexts()) {
    if (context->device == device) set_error(*context, code);
  }
}

bool run_machines(std::unique_lock<std::mutex>& lock) {
  bool progress = false;
  auto& machines = state().machines;
  const size_t first = random_number() % machines.size();
  for (size_t i = 0; i < machines.size(); ++i) {
    const int device = static_cast<int>((first + i) % machines.size());
    Machine& machine = *machines[device];
    if (machine.stuck()) {
      Machine::fault_code = CUDA_ERROR_LAUNCH_FAILED;
      Machine::fault_text = "threads of a block wait for each other in different places";
      report_fault(device);
    }
    if (!machine.runnable()) continue;
    memory().open_for(device);
    lock.unlock();
    progress |= machine.run(kTurns);
    lock.lock();
    if (Machine::fault_code != 0) report_fault(device);
  }
  return progress;
}

bool anything_left() {
  for (Context* context : state().contexts()) {
    for (Stream* stream : streams_of(*context)) {
      if (!stream->works.empty()) return true;
    }
  }
  return false;
}

void run_engine() {
  const Unseen unseen;
  use_signal_stack();
  std::unique_lock lock(state().mutex);
  unsigned idle_turns = 0;
  for (;;) {
    bool progress = advance_streams();
    progress |= run_machines(lock);
    if (progress) {
      idle_turns = 0;
      state().done.notify_all();
    } else if (!anything_left()) {
      memory().open_for(-1);
      state().done.notify_all();
      state().work.wait(lock);
    } else if (++idle_turns < kYields) {
      lock.unlock();
      sched_yield();  // what it waits for may come from another process
      lock.lock();
    } else {
      state().work.wait_for(lock, kShortSleep);
    }
  }
}

}  // namespace

State& state() {
  static auto& the_state = *new State;
  return the_state;
}

std::vector<Context*> State::contexts() {
  std::vector<Context*> all;
  for (auto& context : primaries) {
    if (context != nullptr) all.push_back(context.get());
  }
  for (auto& context : others) all.push_back(context.get());
  return all;
}

Context* State::find(CUcontext handle) {
  for (Context* context : contexts()) {
    if (reinterpret_cast<CUcontext>(context) == handle) return context;
  }
  return nullptr;
}

std::vector<Stream*> streams_of(Context& context) {
  std::vector<Stream*> all{context.legacy.get()};
  for (auto& stream : context.streams) all.push_back(stream.get());
  return all;
}

void start_engine() {
  static bool started = false;
  if (started) return;
  started = true;
  catch_faults();
  std::thread(run_engine).detach();
}

void enqueue(Stream& stream, std::function<bool()> turn) {
  auto work = std::make_unique<Work>();
  work->turn = std::move(turn);
  work->order = ++state().last_order;
  precede(&work->tsan);
  stream.context->queues[stream.queue].not_started.push_back(work->order);
  ++stream.context->queues[stream.queue].length;
  stream.works.push_back(std::move(work));
  state().work.notify_all();
}

bool idle(const Context* context) {
  for (Context* one : state().contexts()) {
    if (context != nullptr && one != context) continue;
    for (Stream* stream : streams_of(*one)) {
      if (!stream->works.empty()) return false;
    }
  }
  return true;
}

void set_error(Context& context, CUresult error) {
  if (context.error == CUDA_SUCCESS) context.error = error;
  for (Stream* stream : streams_of(context)) stream->works.clear();
  for (Queue& queue : context.queues) queue = Queue();
  state().done.notify_all();
}

}  // namespace fake
