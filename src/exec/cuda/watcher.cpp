#include "exec/cuda/watcher.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "base/deadline.hpp"
#include "base/limits.hpp"
#include "exec/host/idle_loop.hpp"

namespace tutti::exec::cuda {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(5), kQuietTurn = std::chrono::milliseconds(50);
constexpr uint64_t kQuietAfter = 400;  // turns in which nothing ran
constexpr double kReports = 200e-3;    // seconds in which a block that waits says so

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
}

/// False: the block waits for no peer.
bool read_wait(const BlockWait& wait, Stall& stall) {
  const uint64_t await_peer = load(wait.await_peer), replica_lane = load(wait.replica_lane);
  const auto peer = static_cast<Rank>(static_cast<uint32_t>(await_peer));
  if (peer == kNoRank) return false;
  stall.await = static_cast<Await>(await_peer >> 32);
  stall.peer = peer;
  stall.step = static_cast<uint32_t>(load(wait.link_lane_step));
  stall.replica = static_cast<uint32_t>(replica_lane >> 32);
  stall.lane = static_cast<uint32_t>(replica_lane);
  stall.round = load(wait.round);
  stall.rounds = load(wait.rounds);
  return true;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watcher::called() {
  const std::lock_guard lock(mutex_);
  ++calls_;
  const bool sleeps = quiet_ > kQuietAfter;
  quiet_ = 0;
  if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
  if (sleeps) changed_.notify_all();
}

void Watcher::end_kernels() { std::atomic_ref<uint64_t>(record_.abort).store(1, std::memory_order_release); }

void Watcher::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, quiet_++ > kQuietAfter ? kQuietTurn : kTurn, [this] { return ending_; });
    lock.unlock();
    look();
    lock.lock();
    if (running_ != 0) quiet_ = 0;
  }
}

void Watcher::look() {
  if (context_.failed->load(std::memory_order_acquire) != 0 && load(record_.abort) == 0) {
    tell_wait();
    end_kernels();
  }
  const uint64_t fault = load(record_.fault);
  if (fault != 0 && !told_) {
    told_ = true;
    tell_fault(fault);
  }
  const uint64_t ended = load(record_.ended), started = load(record_.started);
  if (started == ended || told_) {
    running_ = 0;
  } else {
    check_stall(started, ended);
  }
}

void Watcher::tell_fault(uint64_t kind) {
  Fault fault = record_.what;
  fault.call = record_.call;
  if (kind == kTwoAtOnce) fault = {.kind = FaultKind::TwoAtOnce, .call = record_.call, .other = record_.other};
  (void)context_.observer->fault(fault);  // it fails the communicator, which ends the kernels
}

/// The wait of the first block that reports it from now on; of earlier reports it is not known of which call they are.
std::optional<Stall> Watcher::current_wait() const {
  std::array<uint64_t, kMaxBlocks> before{};
  for (size_t block = 0; block < before.size(); ++block) before[block] = load(record_.waits[block].turn);
  for (const Deadline deadline = Deadline::in(kReports); load(record_.started) > load(record_.ended);) {
    for (size_t block = 0; block < before.size(); ++block) {
      if (load(record_.waits[block].turn) == before[block]) continue;
      Stall stall;
      if (read_wait(record_.waits[block], stall)) return stall;
    }
    if (deadline.passed()) break;
    nap(100e-6);
  }
  return std::nullopt;
}

void Watcher::tell_wait() const {
  std::optional<Stall> stall = current_wait();
  if (!stall) return;
  stall->call = load(record_.ended) + 1;
  context_.observer->cut_off(*stall);
}

void Watcher::check_stall(uint64_t started, uint64_t ended) {
  const double time = now();
  if (running_ != ended + 1) {
    running_ = ended + 1;
    since_ = time;
    next_check_ = kFirstStallCheck;
    stall_id_ = new_stall_id();
  }
  (void)started;
  Stall stall{.seconds = time - since_, .id = stall_id_, .call = running_};
  if (stall.seconds < next_check_) return;
  next_check_ = stall.seconds + std::min(next_check_, kLongestStallInterval);
  for (const BlockWait& wait : record_.waits) {
    if (load(wait.turn) != 0 && read_wait(wait, stall)) break;
  }
  if (!context_.observer->stalled(stall).ok()) end_kernels();
}

}  // namespace tutti::exec::cuda
