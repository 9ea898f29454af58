// Wide calls of the host backend: thread t runs the replicas t, t + threads, …. Thread 0 is the caller, the others are
// workers.
#include <algorithm>

#include "exec/host/host_backend.hpp"
#include "exec/host/steps.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::exec {
namespace {

constexpr double kLongestPause = 5e-3;  // seconds to wait for each worker; a choice, longer than they sleep

}  // namespace

/// Threads that the current call has work for.
uint32_t HostBackend::threads_used() const {
  return static_cast<uint32_t>(std::min<size_t>(context_.threads, current_->replicas.size()));
}

void HostBackend::start_workers() {
  for (uint32_t t = 1; t < threads_used(); ++t) {
    worker_states_[t].faulted = nullptr;
    worker_states_[t].exception = nullptr;
    worker_states_[t].state = WorkerState::kRuns;
  }
  workers_.start(threads_used() - 1, [this](uint32_t index) { run_worker(index + 1); });
}

/// One turn on all replicas of a thread.
Turn HostBackend::step_replicas(uint32_t thread) {
  Turn all{.done = true};
  for (size_t i = thread; i < current_->replicas.size(); i += threads_used()) {
    const Turn turn = step(*current_->replicas[i], *current_, context_.backoff->spins > 0);
    all.moved = all.moved || turn.moved;
    all.done = all.done && turn.done;
    if (turn.fault != nullptr) all.fault = turn.fault;
  }
  return all;
}

void HostBackend::run_worker(uint32_t thread) {
  const FloatEnvironment environment;
  WorkerState& worker = worker_states_[thread];
  Waiter waiter(*context_.backoff);
  try {
    for (Turn turn; !turn.done && turn.fault == nullptr && !stop_.load(std::memory_order_relaxed);) {
      turn = step_replicas(thread);
      worker.faulted = turn.fault;
      const uint32_t asked = pause_.load(std::memory_order_acquire);
      if (asked != kNoPause) pause(worker, asked);
      if (turn.moved) {
        worker.moves.store(worker.moves.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        waiter.progressed();
      } else if (!turn.done) {
        const double rest = waiter.turn();
        if (rest > 0) nap(rest);
      }
    }
  } catch (...) {
    worker.exception = std::current_exception();
  }
  worker.state.store(WorkerState::kDone, std::memory_order_release);
}

/// States are numbers of pauses: a worker is paused if it says the number of the current one.
void HostBackend::pause(WorkerState& worker, uint32_t number) {
  worker.state.store(number, std::memory_order_release);
  while (pause_.load(std::memory_order_acquire) == number && !stop_.load(std::memory_order_relaxed)) nap(50e-6);
  worker.state.store(WorkerState::kRuns, std::memory_order_relaxed);
}

/// Stops all workers between two steps, so that the caller may look at their state. False: one is in a long step.
bool HostBackend::pause_workers() {
  last_pause_ = last_pause_ >= WorkerState::kDone - 1 ? 1 : last_pause_ + 1;
  pause_.store(last_pause_, std::memory_order_release);
  for (uint32_t t = 1; t < threads_used(); ++t) {
    const Deadline end = Deadline::in(kLongestPause);
    const auto stopped = [&] {
      const uint32_t state = worker_states_[t].state.load(std::memory_order_acquire);
      return state == last_pause_ || state == WorkerState::kDone;
    };
    while (!stopped()) {
      if (end.passed()) {
        pause_ = kNoPause;
        return false;
      }
      nap(50e-6);
    }
  }
  return true;
}

/// Adds what the other threads have done to the caller's turn. A worker that has failed ends the call at once.
void HostBackend::collect_workers(Turn& turn) {
  uint64_t moves = 0;
  for (uint32_t t = 1; t < threads_used(); ++t) moves += worker_states_[t].moves.load(std::memory_order_relaxed);
  turn.moved = std::exchange(moves_seen_, moves) != moves || turn.moved;
  for (uint32_t t = 1; t < threads_used(); ++t) {
    WorkerState& worker = worker_states_[t];
    if (worker.state.load(std::memory_order_acquire) != WorkerState::kDone) continue;
    if (worker.exception != nullptr) std::rethrow_exception(std::exchange(worker.exception, nullptr));
    const Replica* const faulted = std::exchange(worker.faulted, nullptr);
    if (faulted != nullptr && status_.ok()) end_by_fault(*faulted);
  }
}

}  // namespace tutti::exec
