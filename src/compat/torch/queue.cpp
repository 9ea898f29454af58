#include "compat/torch/queue.hpp"

#include <ATen/core/grad_mode.h>

#include <exception>
#include <utility>

#include "compat/torch/interrupt.hpp"
#include "compat/torch/python.hpp"

namespace tutti_torch {
namespace {

/// The queue whose thread this is.
thread_local const Queue* current = nullptr;

/// Counts a task while it runs.
class Counted {
 public:
  explicit Counted(std::atomic<int>& pending) : pending_(pending) { pending_.fetch_add(1, std::memory_order_relaxed); }
  ~Counted() { pending_.fetch_sub(1, std::memory_order_release); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& pending_;
};

}  // namespace

void execute(Work& work, const Task& task) {
  std::exception_ptr error;
  try {
    const at::NoGradGuard no_grad;
    task();
  } catch (...) {
    error = as_torch_error(work.group().timeout());
  }
  work.complete(std::move(error));
}

void Queue::run(const c10::intrusive_ptr<Work>& work, Task task, bool waits) {
  // A future's callback runs on this queue's thread: what it waits for must not stand behind it.
  if (current == this) {
    execute(*work, task);
  } else if (waits && idle()) {
    {
      const Counted counted(pending_);
      const Interruptible call(comm_);
      execute(*work, task);
    }
    if (!work->isSuccess()) check_signals();
  } else {
    launch([work, task = std::move(task)] { execute(*work, task); });
  }
}

void Queue::launch(Task task) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  try {
    stream_.launch([this, task = std::move(task)]() mutable {
      current = this;
      task();
      task = nullptr;  // the tensors that it holds are free before the queue is
      pending_.fetch_sub(1, std::memory_order_release);
    });
  } catch (...) {
    pending_.fetch_sub(1, std::memory_order_release);
    throw;
  }
}

void Queue::drain() {
  if (current != this) stream_.synchronize();
}

}  // namespace tutti_torch
