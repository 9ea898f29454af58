// Stream sockets whose waits are bounded: TCP, and UNIX sockets with abstract names (which vanish with their process).
// All are non-blocking and close-on-exec; no write raises a signal.
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

/// The limit of a wait: the deadline, or the moment `*stop` is nonzero.
struct WaitLimit {
  Deadline deadline;
  const std::atomic<uint32_t>* stop = nullptr;
};

// If no descriptor is left to open or receive, all of these except accept_now throw NoDescriptor (base/limits.hpp).

/// Listens on all interfaces, IPv4 and IPv6, at `port` (0: any free one). Throws Error(SystemError).
Fd listen_tcp(uint16_t port);
/// The same at one address of this host alone.
Fd listen_tcp(const Address& address, uint16_t port);
/// The same as the first at the first free port from `first` to `last`. Throws Error(SystemError) if all are in use.
Fd listen_tcp(uint16_t first, uint16_t last);
/// Listens at "host:port" or "[v6]:port", where other processes of this user may listen too: the kernel gives each
/// connection to one of them. Throws Error(InvalidArgument | SystemError).
Fd listen_tcp_shared(const std::string& where);
/// The port a socket is bound to.
uint16_t port_of(int fd);
/// Listens under an abstract name. Throws Error(SystemError), InvalidArgument if the name is too long (> 100 bytes).
Fd listen_unix(const std::string& name);
/// The next connection of a listener; else an invalid Fd and errno: none pending, or a system resource is exhausted.
Fd accept_now(int listener);

/// A TCP connection in progress, `from` an address of this host or any: non-blocking; wait for POLLOUT, then call
/// `connect_error`.
Fd start_connect(const Address& address, uint16_t port, const Address* from = nullptr);
/// 0 when connected, else the errno of the attempt.
int connect_error(int fd);
/// Connects to an abstract name. Throws Error(PeerFailed) if nothing listens, Timeout, Aborted, SystemError.
Fd connect_unix(const std::string& name, WaitLimit limit);
/// Disables TCP's delay of small messages (TCP_NODELAY).
void send_without_delay(int fd);

/// Waits until `fd` is ready for `events` (POLLIN, POLLOUT). Throws Error(Timeout), or Error(Aborted) on stop.
void await_ready(int fd, short events, WaitLimit limit);
/// Sends everything. Throws Error(Timeout | Aborted), or PeerFailed if the peer has closed.
void send_all(int fd, std::string_view bytes, WaitLimit limit);
/// Receives exactly `size` bytes. Throws as send_all.
void recv_all(int fd, void* into, size_t size, WaitLimit limit);

/// Sends everything, the file descriptor `passed` (if ≥ 0) with its first byte. UNIX sockets only. Throws as send_all.
void send_with_fd(int fd, std::string_view bytes, int passed, WaitLimit limit);
/// Receives exactly `size` bytes and the file descriptor sent with them, if any. Throws as recv_all.
Fd recv_with_fd(int fd, void* into, size_t size, WaitLimit limit);

/// Sends what fits now. Returns the number of bytes, 0 for "not now", −1 if the connection is broken.
ptrdiff_t send_now(int fd, std::string_view bytes);
/// The same of `head`, then `rest`, then `end`, in one system call.
ptrdiff_t send_now(int fd, std::string_view head, std::string_view rest, std::string_view end = {});
/// Receives what has arrived. Returns the number of bytes, 0 for "nothing yet", −1 at the end or if broken.
ptrdiff_t recv_now(int fd, void* into, size_t size);

/// The user id of the process at the other end of a UNIX socket; −1 if unknown.
int64_t peer_user(int fd);
/// The process that listened or connected at the other end of a UNIX socket; 0 if unknown.
int64_t peer_process(int fd);

}  // namespace tutti
