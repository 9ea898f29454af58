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

}  // namespace

void execute(Work& work, const Body& body) {
  std::exception_ptr error;
  try {
    const at::NoGradGuard no_grad;
    body();
  } catch (...) {
    error = as_torch_error(work.group().timeout());
  }
  work.complete(std::move(error));
}

void Queue::run(const c10::intrusive_ptr<Work>& work, Body body, bool waits) {
  // A future's callback runs on this queue's thread: what it waits for must not stand behind it.
  if (current == this) {
    execute(*work, body);
  } else if (waits && idle()) {
    {
      const Interruptible call(comm_);
      execute(*work, body);
    }
    if (!work->isSuccess()) check_signals();
  } else {
    launch([work, body = std::move(body)] { execute(*work, body); });
  }
}

void Queue::launch(Body body) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  try {
    stream_.launch([this, body = std::move(body)]() mutable {
      current = this;
      body();
      body = nullptr;  // the tensors that it holds are free before the queue is
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
