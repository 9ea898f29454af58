#include "tools/run/host_signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "base/deadline.hpp"
#include "tools/run/remote.hpp"

namespace tutti::tools {

HostSignals::HostSignals(std::string launcher, const Inherited& inherited)
    : launcher_(std::move(launcher)), inherited_(inherited) {}

void HostSignals::open(const std::string& host) {
  const auto [entry, fresh] = connections_.try_emplace(host);
  if (fresh) start(host, entry->second);
}

void HostSignals::start(const std::string& host, Connection& connection) {
  Pipe in = make_pipe();
  const Fd silence(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  SpawnRequest request;
  request.program = remote_signals(launcher_, host);
  request.inherited = inherited_;
  request.in = in.read.get();
  request.out = request.err = silence.get();
  connection.process = spawn(request);
  fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  connection.lines = std::move(in.write);
}

bool HostSignals::send(const std::string& host, int pid, int signal) {
  Connection& connection = connections_[host];
  const std::string line = signal_line(pid, signal);
  for (int attempt = 0; attempt < 2; ++attempt) {  // a connection may have been lost meanwhile
    const ssize_t written = connection.lines ? write(connection.lines.get(), line.data(), line.size()) : -1;
    if (written == static_cast<ssize_t>(line.size())) return sent_ = true;
    try {
      start(host, connection);
    } catch (const Error&) {
      return false;
    }
  }
  return false;
}

void HostSignals::finish() {
  const Deadline until = Deadline::in(1);
  for (auto& [host, connection] : connections_) connection.lines.reset();  // it ends when it has sent all of them
  for (auto& [host, connection] : connections_) {
    const Fd process(sent_ ? static_cast<int>(syscall(SYS_pidfd_open, connection.process, 0)) : -1);
    pollfd end{process.get(), POLLIN, 0};
    if (process && !until.passed()) poll(&end, 1, until.poll_ms());
  }
}

}  // namespace tutti::tools
