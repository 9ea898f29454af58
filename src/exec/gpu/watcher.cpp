#include "exec/gpu/watcher.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "exec/gpu/board.hpp"
#include "exec/idle_loop.hpp"
#include "link/host_memory.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr auto kTurn = std::chrono::milliseconds(5), kQuietTurn = std::chrono::milliseconds(50);
constexpr uint64_t kQuietAfter = 400;  // turns in which nothing ran
constexpr double kReports = 200e-3;    // seconds in which a block that waits says so
constexpr double kReleases = 50e-3;    // seconds of a turn in which the waits of streams are ended
constexpr double kHeard = 100e-3;      // seconds after which peers have heard of a failure
constexpr double kSilence = 100e-3;    // seconds without a word of a kernel, after which the driver is asked
constexpr double kBoards = 1;          // seconds in which no call ends, after which the log has what kernels tell
// Turns. Words and position are not read at once, but nothing of a call that waits changes.
constexpr int kSureAfter = 3;

uint64_t load(const uint64_t& word) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(word)).load(std::memory_order_acquire);
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
  if (driver_probe_.joinable()) driver_probe_.join();
}

void Watcher::called(bool launched) {
  const std::lock_guard lock(mutex_);
  if (launched) calls_ = std::max(calls_, load(record_.ended)) + 1;  // replays end too
  const bool sleeps = quiet_ > kQuietAfter;
  quiet_ = 0;
  if (!thread_.joinable()) thread_ = start_thread([this] { work(); });
  if (sleeps) changed_.notify_all();
}

void Watcher::end_kernels() { std::atomic_ref<uint64_t>(record_.abort).store(1, std::memory_order_release); }

/// A look that is under way may have read the report before it was written, so the next one counts.
void Watcher::poll_again(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return;
  wanted_polls_ = polls_ + 2;
  changed_.notify_all();
  polled_.wait_until(lock, deadline.at(), [this] { return polls_ >= wanted_polls_; });
}

void Watcher::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, quiet_++ > kQuietAfter ? kQuietTurn : kTurn,
                      [this] { return ending_ || polls_ < wanted_polls_; });
    lock.unlock();
    poll();
    if (log_enabled(LogLevel::Debug)) log_board();
    lock.lock();
    ++polls_;
    polled_.notify_all();
    if (running_ != 0) quiet_ = 0;
  }
}

void Watcher::poll() {
  if (context_.failed->load(std::memory_order_acquire) != 0 && load(record_.abort) == 0) {
    report_wait();
    end_kernels();
  }
  close_calls();
  if (Fault fault; !reported_ && load_report<link::HostMemory>(record_.fault, fault)) {
    reported_ = true;
    (void)context_.observer->fault(fault);  // it fails the communicator, which ends the kernels
  }
  const uint64_t ended = load(record_.ended), started = load(record_.started);
  const bool copies = copies_ != nullptr && copies_->runs();
  if (copies && load(record_.abort) != 0) {
    release_copies();
    running_ = 1;
  } else if (reported_ || check_device(started, ended, copies) || (!copies && started == ended)) {
    running_ = 0;
  } else if (copies) {
    poll_copies();
  } else {
    check_stall(ended + 1);
  }
}

/// Once a second while no call ends, so that the log shows what a program that hangs waits for.
void Watcher::log_board() {
  uint64_t calls = 0;
  {
    const std::lock_guard lock(mutex_);
    calls = calls_;
  }
  const double time = now();
  const bool copies = copies_ != nullptr && copies_->runs();
  const uint64_t ended = load(record_.ended), sign = ended + (copies ? copies_->progress() : 0);
  const bool waits = copies || calls > ended || load(record_.started) > ended;
  if (!waits || sign != board_sign_) {
    board_sign_ = sign;
    next_board_ = time + kBoards;
  }
  if (time < next_board_) return;
  next_board_ = time + kBoards;
  std::string text = board_text(record_, calls);
  if (const std::optional<Stall> wait = copies ? copies_->wait() : std::nullopt) {
    text += "; a stream waits for " + wait_text(*wait);
  }
  log_debug("board: rank {} on {}: {}", context_.wireup->rank(), gpu_.name(), text);
}

/// The copies that follow tell peers of bytes that have no meaning, so these must know of the failure before. A word is
/// set to 0 once it has let a wait go, so several turns may be needed.
void Watcher::release_copies() {
  if (aborted_ == 0) aborted_ = now();
  if (now() - aborted_ < kHeard) return;
  for (const Deadline deadline = Deadline::in(kReleases); copies_->runs() && !deadline.passed();) {
    copies_->release();
    nap(100e-6);
  }
}

void Watcher::poll_copies() {
  const uint64_t progress = kCountedApart | copies_->progress();
  const std::optional<Fault> wrong = copies_->wrong();
  wrong_ = wrong && progress == running_ ? wrong_ + 1 : 0;
  if (wrong_ == kSureAfter) {
    reported_ = true;
    (void)context_.observer->fault(*wrong);
  } else if (const std::optional<Stall> stall = copies_->wait()) {
    check_wait(*stall, progress);
  }
}

/// True if the device has failed. The driver is asked when the device has told nothing for a while, in a thread of its
/// own: it may make that thread wait behind a call of the user that waits for what only the watcher can end.
bool Watcher::check_device(uint64_t started, uint64_t ended, bool copies) {
  uint64_t calls = 0;
  {
    const std::lock_guard lock(mutex_);
    calls = calls_;
  }
  const double time = now();
  uint64_t signs = started + ended + calls + (copies ? copies_->progress() : 0);
  for (const BlockWait& wait : record_.waits) signs += load(wait.turn);
  if (signs != signs_ || (!copies && started == ended && calls <= ended)) {
    signs_ = signs;
    alive_ = time;
  }
  if (time - alive_ >= kSilence) {
    alive_ = time;
    ask_device();
  }
  const std::string why = answer();
  if (why.empty()) return false;
  reported_ = true;
  end_kernels();  // of other ranks' devices, when they hear of it; here, of the next ones
  Stall stall{.call = ended + 1};
  for (const BlockWait& wait : record_.waits) {
    if (read_wait(wait, ended + 1, stall)) break;
  }
  if (const std::optional<Stall> copied = copies ? copies_->wait() : std::nullopt) stall = *copied;
  context_.observer->processor_failed(fmt::format("{} has failed: {}", gpu_.name(), why), stall);
  return true;
}

void Watcher::ask_device() {
  apart([this] {
    std::string why = gpu_.failure();
    const std::lock_guard answering(mutex_);
    answer_ = std::move(why);
  });
}

/// The host's word ends kernels that wait. Those that begin later look at a word in the GPU's memory alone.
void Watcher::close_calls() {
  if (closed_ || load(record_.abort) == 0) return;
  closed_ = apart([this] {
    try {
      close_();
      log_debug("rank {}: calls on {} that have not begun do nothing now", context_.wireup->rank(), gpu_.name());
    } catch (const Error&) {  // the device has failed: nothing begins there
    }
  });
}

/// Runs a task that may wait for the driver, one at a time. False: another one is under way, or there is no thread now.
bool Watcher::apart(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (asking_) return false;
  if (driver_probe_.joinable()) driver_probe_.join();  // it has ended
  try {
    driver_probe_ = std::thread([this, task = std::move(task)] {
      task();
      const std::lock_guard ending(mutex_);
      asking_ = false;
    });
  } catch (const std::system_error&) {
    return false;
  }
  return asking_ = true;
}

/// Why the device has failed; "": it has not, or the driver has not answered.
std::string Watcher::answer() {
  const std::lock_guard lock(mutex_);
  return answer_;
}

/// The wait of the first block that reports it from now on: what it reported before may have come since.
std::optional<Stall> Watcher::current_wait() const {
  std::array<uint64_t, kMaxBlocks> before{};
  for (size_t block = 0; block < before.size(); ++block) before[block] = load(record_.waits[block].turn);
  for (const Deadline deadline = Deadline::in(kReports); load(record_.started) > load(record_.ended);) {
    for (size_t block = 0; block < before.size(); ++block) {
      if (load(record_.waits[block].turn) == before[block]) continue;
      Stall stall;
      if (read_wait(record_.waits[block], load(record_.ended) + 1, stall)) return stall;
    }
    if (deadline.passed()) break;
    nap(100e-6);
  }
  return std::nullopt;
}

void Watcher::report_wait() const {
  if (report_copies_wait()) return;
  std::optional<Stall> stall = current_wait();
  if (!stall) return;
  stall->call = load(record_.ended) + 1;
  context_.observer->cut_off(*stall);
}

/// False: no call of copies waits.
bool Watcher::report_copies_wait() const {
  if (copies_ == nullptr || !copies_->runs()) return false;
  const std::optional<Stall> stall = copies_->wait();
  if (stall) context_.observer->cut_off(*stall);
  return stall.has_value();
}

void Watcher::check_stall(uint64_t call) {
  Stall stall{.call = call};
  for (const BlockWait& wait : record_.waits) {
    if (read_wait(wait, call, stall)) break;
  }
  check_wait(stall, call);
}

/// `waiting` changes with each progress.
void Watcher::check_wait(Stall stall, uint64_t waiting) {
  const double time = now();
  if (running_ != waiting) {
    running_ = waiting;
    since_ = time;
    next_check_ = kFirstStallCheck;
    stall_id_ = new_stall_id();
  }
  stall.seconds = time - since_;
  stall.id = stall_id_;
  if (stall.seconds < next_check_) return;
  next_check_ = stall.seconds + std::min(next_check_, kLongestStallInterval);
  if (!context_.observer->stalled(stall).ok()) end_kernels();
}

}  // namespace tutti::exec::gpu
