// Wide calls of the host executor: thread t runs the replicas t, t + threads, …; thread 0 is the caller.
#include <algorithm>

#include "exec/host/host_executor.hpp"
#include "exec/host/steps.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::exec {
namespace {

constexpr double kLongestPause = 2e-3;  // seconds to wait until all shares have paused

}  // namespace

void HostExecutor::launch_shares() {
  const auto threads = static_cast<uint32_t>(std::min<size_t>(context_.threads, current_->replicas.size()));
  for (uint32_t t = 1; t < threads; ++t) {
    shares_[t].faulted = nullptr;
    shares_[t].exception = nullptr;
    shares_[t].state = Share::kRuns;
  }
  workers_.start(threads - 1, [this](uint32_t index) { run_share(index + 1); });
}

void HostExecutor::run_share(uint32_t thread) {
  const FloatEnvironment environment;
  Share& share = shares_[thread];
  const size_t stride = std::min<size_t>(context_.threads, current_->replicas.size());
  const bool cooperates = context_.backoff->spins > 0;
  Waiter waiter(*context_.backoff);
  try {
    for (bool done = false; !done && !stop_.load(std::memory_order_relaxed) && share.faulted == nullptr;) {
      bool moved = false;
      done = true;
      for (size_t i = thread; i < current_->replicas.size(); i += stride) {
        Replica& replica = current_->replicas[i];
        const Turn turn = step(replica, current_->program().has_zero_copy, cooperates);
        moved = moved || turn.moved;
        done = done && turn.done;
        if (turn.fault) share.faulted = &replica;
      }
      if (pause_.load(std::memory_order_acquire)) pause(share);
      if (moved) {
        share.moves.store(share.moves.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        waiter.progressed();
      } else if (!done) {
        const double rest = waiter.turn();
        if (rest > 0) nap(rest);
      }
    }
  } catch (...) {
    share.exception = std::current_exception();
  }
  share.state.store(Share::kDone, std::memory_order_release);
}

void HostExecutor::pause(Share& share) {
  share.state.store(Share::kPaused, std::memory_order_release);
  while (pause_.load(std::memory_order_acquire) && !stop_.load(std::memory_order_relaxed)) nap(50e-6);
  share.state.store(Share::kRuns, std::memory_order_relaxed);
}

/// Stops all shares between two steps, so that the caller may look at their state. False: one is in a long step.
bool HostExecutor::pause_shares() {
  pause_ = true;
  const Deadline end = Deadline::in(kLongestPause);
  const size_t threads = std::min<size_t>(context_.threads, current_->replicas.size());
  for (size_t t = 1; t < threads; ++t) {
    while (shares_[t].state.load(std::memory_order_acquire) == Share::kRuns) {
      if (end.passed()) {
        pause_ = false;
        return false;
      }
      nap(50e-6);
    }
  }
  return true;
}

bool HostExecutor::shares_moved() {
  uint64_t moves = 0;
  for (const Share& share : shares_) moves += share.moves.load(std::memory_order_relaxed);
  return std::exchange(moves_seen_, moves) != moves;
}

void HostExecutor::collect_shares() {
  for (Share& share : shares_) {
    if (share.exception != nullptr) std::rethrow_exception(std::exchange(share.exception, nullptr));
    if (share.faulted != nullptr && status_.ok()) end_by_fault(*std::exchange(share.faulted, nullptr));
  }
}

}  // namespace tutti::exec
