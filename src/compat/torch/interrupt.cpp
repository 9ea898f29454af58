#include "compat/torch/interrupt.hpp"

#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <thread>

namespace tutti_torch {
namespace {

constexpr int kGrace = 3;  // seconds that a call has to end by itself

/// What the signal's handler, the calling thread and the watching thread share.
struct Watch {
  sem_t signals;
  std::mutex mutex;
  tuttiComm_t running = nullptr;   // guarded by mutex: what the watching thread may abort
  std::atomic<uint64_t> call{0};   // odd while a call runs
  struct sigaction previous = {};  // the handler that ours calls: Python's
};

/// Never destroyed: a signal may come at any time.
Watch& watch() {
  static Watch* const kOne = new Watch;
  return *kOne;
}

void on_signal(int signal, siginfo_t* info, void* context) {
  Watch& w = watch();
  if ((w.previous.sa_flags & SA_SIGINFO) != 0) {
    w.previous.sa_sigaction(signal, info, context);
  } else {
    w.previous.sa_handler(signal);
  }
  if (w.call.load(std::memory_order_relaxed) % 2 == 1) sem_post(&w.signals);
}

[[noreturn]] void watch_signals() {
  Watch& w = watch();
  for (;;) {
    while (sem_wait(&w.signals) != 0) continue;
    const uint64_t call = w.call.load();
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += kGrace;
    while (w.call.load() == call && sem_timedwait(&w.signals, &until) != 0 && errno == EINTR) continue;
    const std::lock_guard lock(w.mutex);
    if (w.call.load() == call && w.running != nullptr) tuttiCommAbort(w.running);
  }
}

/// Puts our handler before Python's, once for each handler that Python sets.
void chain() {
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  if (now.sa_sigaction == on_signal || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  static std::once_flag started;
  std::call_once(started, [] {
    sem_init(&watch().signals, 0, 0);
    std::thread(watch_signals).detach();
  });
  watch().previous = now;
  struct sigaction ours = now;
  ours.sa_sigaction = on_signal;
  ours.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &ours, nullptr);
}

bool is_main_thread() {
  thread_local const bool kMain = syscall(SYS_gettid) == getpid();
  return kMain;
}

}  // namespace

Interruptible::Interruptible(tuttiComm_t comm) : watched_(is_main_thread()) {
  if (!watched_) return;
  chain();
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.running = comm;
  ++w.call;
}

Interruptible::~Interruptible() {
  if (!watched_) return;
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.running = nullptr;
  ++w.call;
}

}  // namespace tutti_torch
