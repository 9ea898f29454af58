// What the driver knows of: contexts, streams, events and the work in them.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "config.hpp"
#include "fatbin.hpp"
#include "machine.hpp"
#include "memory.hpp"
#include "sanitizers.hpp"

namespace fake {

struct Failure {
  CUresult code;
};
[[noreturn]] inline void fail(CUresult code) { throw Failure{code}; }
inline void require(bool ok, CUresult code) {
  if (!ok) fail(code);
}

constexpr int kQueues = 32;            ///< in hardware, of which config().queues are used: streams share them
constexpr size_t kQueueLength = 1024;  ///< items of a hardware queue, with the rule "queue"
constexpr int kUrgent = kQueues;       ///< one more, for streams of the greatest priority
constexpr int kGreatestPriority = -5;

struct Stream;
struct Context;
struct Capture;

/// A point in the work of a stream.
struct Mark {
  bool done = false;
  uint64_t time_ns = 0;
  char tsan = 0;
};

/// One item of a stream. turn() is called again and again, from when it may start until it returns true.
struct Work {
  std::function<bool()> turn;
  uint64_t order = 0;  ///< among all work of the process
  bool started = false;
  char tsan = 0;
};

/// Work that waits behind all that a context's streams have for one of its hardware queues.
struct Queue {
  std::deque<uint64_t> not_started;  ///< orders
  size_t length = 0;                 ///< items that have not ended
};

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  int queue = 0;
  bool legacy = false;
  bool destroyed = false;  ///< its work goes on
  std::deque<std::unique_ptr<Work>> works;
  std::shared_ptr<Capture> capture;  ///< null: it does not capture
  std::vector<CUgraphNode> tail;     ///< while it does: what its next node depends on
  StreamThread thread;
  std::shared_ptr<FiberPool> fibers = std::make_shared<FiberPool>();
  char tsan = 0;  ///< what follows its finished work
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Mark> mark;        ///< of the last record; null: none
  std::shared_ptr<Capture> capture;  ///< it was recorded in a capture: that, and
  std::vector<CUgraphNode> tail;     ///< the nodes that it stands for
};

struct Context {
  int device = 0;
  bool primary = false;
  unsigned uses = 0;   ///< of a primary context
  bool green = false;  ///< its kernels run on some multiprocessors only:
  uint32_t first_multiprocessor = 0, multiprocessors = 0;
  CUresult error = CUDA_SUCCESS;  ///< sticky
  Queue queues[kQueues + 1];
  int next_queue = 0;
  std::unique_ptr<Stream> legacy;
  std::list<std::unique_ptr<Stream>> streams;
};

/// The handle of a kernel in a library, or of one in a context: then only streams of that one run it.
struct Library;
struct Kernel {
  const Twin* twin = nullptr;
  const Library* library = nullptr;
  Context* context = nullptr;
  const Kernel* of = nullptr;  ///< with a context: the kernel of the library
  size_t largest_dynamic_shared = 48 << 10;
};
struct Library {
  std::vector<Code> codes;
  std::list<std::unique_ptr<Kernel>> kernels;
};

/// All of it; one for the process. `mutex` guards it, except the fibers' own data.
struct State {
  std::mutex mutex;
  std::condition_variable work, done;  ///< there is more to do; something has been done
  bool initialised = false;
  std::vector<std::unique_ptr<Context>> primaries;
  std::list<std::unique_ptr<Context>> others;
  std::vector<std::unique_ptr<Machine>> machines;
  std::list<std::unique_ptr<Event>> events;
  std::list<std::unique_ptr<Library>> libraries;
  std::list<std::unique_ptr<Kernel>> functions;  ///< kernels in contexts
  uint64_t last_order = 0;
  Stream* turning = nullptr;  ///< whose work the engine runs

  std::vector<Context*> contexts();
  Context* find(CUcontext handle);
};

State& state();

std::unique_ptr<Context> new_context(int device);
/// Starts the thread that runs all work, once.
void start_engine();
/// All streams of a context; the legacy stream is the first.
std::vector<Stream*> streams_of(Context& context);
/// Appends to a stream; wakes the engine.
void enqueue(Stream& stream, std::function<bool()> turn);
/// True when nothing of the context, or of the device (null: of the process), is left to do.
bool idle(const Context* context);
void set_error(Context& context, CUresult error);

}  // namespace fake
