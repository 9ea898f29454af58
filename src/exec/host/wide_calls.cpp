// Wide calls of the host executor: thread t runs the replicas t, t + threads, …; thread 0 is the caller.
#include <algorithm>

#include "exec/host/host_executor.hpp"
#include "exec/host/steps.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::exec {
namespace {

constexpr double kLongestPause = 5e-3;  // seconds to wait for each worker; a choice, longer than they sleep

}  // namespace

/// Threads that the current call has work for.
uint32_t HostExecutor::shares() const {
  return static_cast<uint32_t>(std::min<size_t>(context_.threads, current_->replicas.size()));
}

void HostExecutor::launch_shares() {
  for (uint32_t t = 1; t < shares(); ++t) {
    shares_[t].faulted = nullptr;
    shares_[t].exception = nullptr;
    shares_[t].state = Share::kRuns;
  }
  workers_.start(shares() - 1, [this](uint32_t index) { run_share(index + 1); });
}

/// One turn on all replicas of a thread.
Turn HostExecutor::turn_of_share(uint32_t thread) {
  Turn all{.done = true};
  for (size_t i = thread; i < current_->replicas.size(); i += shares()) {
    const Turn turn = step(*current_->replicas[i], *current_, context_.backoff->spins > 0);
    all.moved = all.moved || turn.moved;
    all.done = all.done && turn.done;
    if (turn.fault != nullptr) all.fault = turn.fault;
  }
  return all;
}

void HostExecutor::run_share(uint32_t thread) {
  const FloatEnvironment environment;
  Share& share = shares_[thread];
  Waiter waiter(*context_.backoff);
  try {
    for (Turn turn; !turn.done && turn.fault == nullptr && !stop_.load(std::memory_order_relaxed);) {
      turn = turn_of_share(thread);
      share.faulted = turn.fault;
      const uint32_t asked = pause_.load(std::memory_order_acquire);
      if (asked != kNoPause) pause(share, asked);
      if (turn.moved) {
        share.moves.store(share.moves.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        waiter.progressed();
      } else if (!turn.done) {
        const double rest = waiter.turn();
        if (rest > 0) nap(rest);
      }
    }
  } catch (...) {
    share.exception = std::current_exception();
  }
  share.state.store(Share::kDone, std::memory_order_release);
}

/// States are numbers of pauses: a worker is paused if it says the number of the current one.
void HostExecutor::pause(Share& share, uint32_t number) {
  share.state.store(number, std::memory_order_release);
  while (pause_.load(std::memory_order_acquire) == number && !stop_.load(std::memory_order_relaxed)) nap(50e-6);
  share.state.store(Share::kRuns, std::memory_order_relaxed);
}

/// Stops all workers between two steps, so that the caller may look at their state. False: one is in a long step.
bool HostExecutor::pause_shares() {
  last_pause_ = last_pause_ >= Share::kDone - 1 ? 1 : last_pause_ + 1;
  pause_.store(last_pause_, std::memory_order_release);
  for (uint32_t t = 1; t < shares(); ++t) {
    const Deadline end = Deadline::in(kLongestPause);
    const auto stopped = [&] {
      const uint32_t state = shares_[t].state.load(std::memory_order_acquire);
      return state == last_pause_ || state == Share::kDone;
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
void HostExecutor::join_shares(Turn& turn) {
  uint64_t moves = 0;
  for (uint32_t t = 1; t < shares(); ++t) moves += shares_[t].moves.load(std::memory_order_relaxed);
  turn.moved = std::exchange(moves_seen_, moves) != moves || turn.moved;
  for (uint32_t t = 1; t < shares(); ++t) {
    Share& share = shares_[t];
    if (share.state.load(std::memory_order_acquire) != Share::kDone) continue;
    if (share.exception != nullptr) std::rethrow_exception(std::exchange(share.exception, nullptr));
    const Replica* const faulted = std::exchange(share.faulted, nullptr);
    if (faulted != nullptr && status_.ok()) end_by_fault(*faulted);
  }
}

}  // namespace tutti::exec
