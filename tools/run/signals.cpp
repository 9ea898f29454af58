#include "tools/run/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.hpp"

namespace tutti::tools {

SignalQueue::SignalQueue() {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGWINCH}) {
    sigaddset(&taken, signal);
  }
  sigprocmask(SIG_BLOCK, &taken, &before_);
  old_pipe_ = signal(SIGPIPE, SIG_IGN);
  queue_ = Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!queue_) throw_error(Code::SystemError, "signalfd: {}", std::strerror(errno));
}

SignalQueue::~SignalQueue() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  signal(SIGPIPE, old_pipe_);
}

int SignalQueue::next() {
  signalfd_siginfo info{};
  return read(queue_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace tutti::tools
