#include "control/status/trace_file.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "control/host.hpp"
#include "control/status/status.hpp"

namespace tutti::control {
namespace {

constexpr const char* kDefaultFile = "tutti-%h-%p.trace";

std::atomic<int> signalled{-1};  // a descriptor; the handler may run at any time, so it stays open

void on_trace_signal(int) {
  const int error = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signalled.load(std::memory_order_relaxed), &one, sizeof one);
  errno = error;
}

}  // namespace

std::string write_trace(const std::string& path) {
  std::string name = path_of_process(path);
  write_private(name, StatusBook::of_this_process().trace(host_name()));
  return name;
}

void TraceSignal::open() {
  const TraceSignalName wanted = usable_env().ours.trace_signal;
  if (wanted == TraceSignalName::None) return;
  const int number = wanted == TraceSignalName::Usr1 ? SIGUSR1 : SIGUSR2;
  struct sigaction now = {};
  sigaction(number, nullptr, &now);
  // A forked child has its parent's handler, and gets a descriptor of its own.
  const bool is_ours = now.sa_handler == on_trace_signal;
  const bool is_free = (now.sa_flags & SA_SIGINFO) == 0 && (now.sa_handler == SIG_DFL || is_ours);
  if (!is_free) {
    log_warn("TUTTI_TRACE_SIGNAL={}: the program handles or ignores this signal, so it writes no trace",
             number == SIGUSR1 ? "USR1" : "USR2");
    return;
  }
  wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return log_warn("TUTTI_TRACE_SIGNAL: no descriptor is left for it");
  signalled = wake_.get();
  loop_.watch(wake_.get(), EPOLLIN, [this](uint32_t) { write(); });
  struct sigaction ours = {};
  ours.sa_handler = on_trace_signal;
  ours.sa_flags = SA_RESTART;
  sigaction(number, &ours, nullptr);
}

void TraceSignal::write() {
  uint64_t count = 0;
  if (::read(wake_.get(), &count, sizeof count) < 0) return;
  const std::string file = usable_env().ours.trace_file;
  try {
    log_warn("TUTTI_TRACE_SIGNAL: the last calls of this process are in {}",
             write_trace(file.empty() ? kDefaultFile : file));
  } catch (const std::exception& error) {
    log_warn("TUTTI_TRACE_SIGNAL: the last calls are not written: {}", error.what());
  }
}

}  // namespace tutti::control
