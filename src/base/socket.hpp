// Stream sockets that never block for longer than they were told: TCP, and UNIX sockets with abstract names (which
// vanish with their process). All are non-blocking and close-on-exec; no signal is ever raised by a write.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.hpp"
#include "base/deadline.hpp"
#include "base/fd.hpp"

namespace tutti {

/// How long to wait: until the deadline, or until `*stop` is no longer 0.
struct WaitLimit {
  Deadline deadline;
  const std::atomic<uint32_t>* stop = nullptr;
};

// Where no descriptor is left to open or to receive all of these throw NoDescriptor (base/limits.hpp), but accept_now.

/// Listens on all interfaces, IPv4 and IPv6, at `port` (0: any free one). Throws Error(SystemError).
Fd listen_tcp(uint16_t port);
/// The port a socket is bound to.
uint16_t port_of(int fd);
/// Listens under an abstract name. Throws Error(SystemError), InvalidArgument if the name is too long (> 100 bytes).
Fd listen_unix(const std::string& name);
/// The next connection of a listener, or an invalid Fd and errno: none there, or the system is out of something for
/// now.
Fd accept_now(int listener);

/// A TCP connection under way: non-blocking, not yet known to be connected (wait for POLLOUT, then `connect_error`).
Fd start_connect(const Address& address, uint16_t port);
/// 0 when connected, else the errno of the attempt.
int connect_error(int fd);
/// Connects to an abstract name. Throws Error(PeerFailed) where nobody listens, Timeout, Aborted, SystemError.
Fd connect_unix(const std::string& name, WaitLimit limit);
/// Small messages leave at once (TCP_NODELAY).
void send_without_delay(int fd);

/// Waits until `fd` is ready for `events` (POLLIN, POLLOUT). Throws Error(Timeout), or Error(Aborted) on stop.
void await_ready(int fd, short events, WaitLimit limit);
/// Sends everything. Throws Error(Timeout | Aborted), or PeerFailed when the other end has gone.
void send_all(int fd, std::string_view bytes, WaitLimit limit);
/// Receives exactly `size` bytes. Throws as send_all.
void recv_all(int fd, void* into, size_t size, WaitLimit limit);

/// Sends everything, the file descriptor `passed` (if ≥ 0) with its first byte. UNIX sockets only. Throws as send_all.
void send_with_fd(int fd, std::string_view bytes, int passed, WaitLimit limit);
/// Receives exactly `size` bytes and the file descriptor that came along, if any. Throws as recv_all.
Fd recv_with_fd(int fd, void* into, size_t size, WaitLimit limit);

/// Sends what fits now. Bytes sent, 0 for "not now", −1 when the connection is broken.
ptrdiff_t send_now(int fd, std::string_view bytes);
/// Receives what is there. Bytes, 0 for "nothing yet", −1 when it is at its end or broken.
ptrdiff_t recv_now(int fd, void* into, size_t size);

/// The user id of the process at the other end of a UNIX socket; −1 if unknown.
int64_t peer_user(int fd);
/// The process that listened or connected at the other end of a UNIX socket; 0 if unknown.
int64_t peer_process(int fd);

}  // namespace tutti
