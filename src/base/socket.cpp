#include "base/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/format.hpp"
#include "base/limits.hpp"

namespace tutti {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kStopSliceMs = 20;  // between checks of the stop flag

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

[[noreturn]] void throw_gone(int error) {
  throw_error(Code::PeerFailed, "the other end closed the connection{}{}", error ? ": " : "",
              error ? std::strerror(error) : "");
}

Fd open_socket(int family) {
  Fd fd(socket(family, kKind, 0));
  if (!fd) throw_system("open a socket", errno);
  return fd;
}

/// Closes `fd` and keeps errno.
Fd without_descriptor(Fd fd) {
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

/// Listens on all interfaces, IPv4 and IPv6 if the host has it. An invalid Fd and errno if it cannot.
Fd try_listen_tcp(uint16_t port) {
  const int on = 1, off = 0;
  if (Fd fd(socket(AF_INET6, kKind, 0)); fd) {
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 && listen(fd.get(), SOMAXCONN) == 0)
      return fd;
    if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) return without_descriptor(std::move(fd));
  }
  Fd fd = open_socket(AF_INET);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    return without_descriptor(std::move(fd));
  }
  return fd;
}

socklen_t fill(sockaddr_un& address, const std::string& name) {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > 100) {
    throw_error(Code::InvalidArgument, "an abstract socket name has 1 to 100 bytes, not {}", name.size());
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading zero byte makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

/// Takes the first descriptor out of a received control message and closes all others.
void take_descriptors(msghdr& message, Fd& kept) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      Fd received(fd);
      if (!kept) kept = std::move(received);
    }
  }
}

}  // namespace

Fd listen_tcp(uint16_t port) {
  Fd fd = try_listen_tcp(port);
  if (!fd) throw_error(Code::SystemError, "cannot listen at TCP port {}: {}", port, std::strerror(errno));
  return fd;
}

Fd listen_tcp(const Address& address, uint16_t port) {
  socklen_t length = 0;
  const sockaddr_storage at = to_sockaddr(address, port, &length);
  Fd fd = open_socket(at.ss_family);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    throw_error(Code::SystemError, "cannot listen at {}: {}", to_string(address, port), std::strerror(errno));
  }
  return fd;
}

Fd listen_tcp(uint16_t first, uint16_t last) {
  for (uint32_t port = first; port <= last; ++port) {
    if (Fd fd = try_listen_tcp(static_cast<uint16_t>(port))) return fd;
    if (errno != EADDRINUSE) {
      throw_error(Code::SystemError, "cannot listen at TCP port {}: {}", port, std::strerror(errno));
    }
  }
  throw_error(Code::SystemError,
              "all TCP ports from {} to {} are in use on this host (TUTTI_PORTS): each process takes one, so give it "
              "more ports, or end what holds them",
              first, last);
}

Fd listen_tcp_shared(const std::string& where) {
  const HostPort at = parse_host_port(where);
  if (at.host.empty()) throw_error(Code::InvalidArgument, "'{}' has no host before its port", where);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  const int error = getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found);
  if (error != 0) throw_error(Code::InvalidArgument, "'{}' is not an address: {}", where, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  Fd fd = open_socket(found->ai_family);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    throw_error(Code::SystemError, "cannot listen at {}: {}", where, std::strerror(errno));
  }
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(bound).sin_port);
  if (bound.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(bound).sin6_port);
  return 0;
}

Fd listen_unix(const std::string& name) {
  sockaddr_un address;
  const socklen_t length = fill(address, name);
  Fd fd = open_socket(AF_UNIX);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd.get(), SOMAXCONN) != 0) {
    throw_error(Code::SystemError, "cannot listen at the abstract UNIX socket '{}': {}", name, std::strerror(errno));
  }
  return fd;
}

Fd accept_now(int listener) { return Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); }

Fd start_connect(const Address& address, uint16_t port, const Address* from) {
  socklen_t length = 0;
  const sockaddr_storage to = to_sockaddr(address, port, &length);
  Fd fd(socket(to.ss_family, kKind, 0));
  if (!fd && out_of_descriptors(errno)) throw_system("open a socket", errno);
  if (!fd) return fd;
  if (from != nullptr) {
    const int on = 1;  // the port is chosen when both ends are known
    setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    socklen_t size = 0;
    const sockaddr_storage mine = to_sockaddr(*from, 0, &size);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&mine), size) != 0) return without_descriptor(std::move(fd));
  }
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return without_descriptor(std::move(fd));
  }
  return fd;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Fd connect_unix(const std::string& name, WaitLimit limit) {
  sockaddr_un address;
  const socklen_t length = fill(address, name);
  Fd fd = open_socket(AF_UNIX);
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (!again(errno)) {
      throw_error(errno == ECONNREFUSED ? Code::PeerFailed : Code::SystemError,
                  "cannot connect to the abstract UNIX socket '{}': {}", name, std::strerror(errno));
    }
    // The listener's queue is full. No event reports free room, so try again shortly.
    if (limit.deadline.passed()) {
      throw_error(Code::Timeout, "the abstract UNIX socket '{}' did not accept in time", name);
    }
    if (limit.stop && limit.stop->load(std::memory_order_relaxed)) throw_error(Code::Aborted, "stopped");
    poll(nullptr, 0, 1);
  }
  return fd;
}

void send_without_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on UNIX sockets, which never delay
}

void await_ready(int fd, short events, WaitLimit limit) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int rc = poll(&entry, 1, limit.deadline.poll_ms(limit.stop ? kStopSliceMs : 1000));
    if (rc > 0) return;
    if (rc < 0 && errno != EINTR) throw_error(Code::SystemError, "poll: {}", std::strerror(errno));
    if (limit.stop && limit.stop->load(std::memory_order_relaxed) != 0) throw_error(Code::Aborted, "stopped");
    if (limit.deadline.passed()) throw_error(Code::Timeout, "the other end did not answer in time");
  }
}

void send_all(int fd, std::string_view bytes, WaitLimit limit) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && again(errno)) {
      await_ready(fd, POLLOUT, limit);
    } else {
      throw_gone(errno);
    }
  }
}

void recv_all(int fd, void* into, size_t size, WaitLimit limit) {
  auto* to = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = recv(fd, to, size, 0);
    if (got > 0) {
      to += got;
      size -= static_cast<size_t>(got);
    } else if (got < 0 && again(errno)) {
      await_ready(fd, POLLIN, limit);
    } else {
      throw_gone(got < 0 ? errno : 0);
    }
  }
}

void send_with_fd(int fd, std::string_view bytes, int passed, WaitLimit limit) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  while (!bytes.empty()) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (passed >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      passed = -1;
    } else if (sent < 0 && again(errno)) {
      await_ready(fd, POLLOUT, limit);
    } else {
      throw_gone(errno);
    }
  }
}

Fd recv_with_fd(int fd, void* into, size_t size, WaitLimit limit) {
  auto* to = static_cast<char*>(into);
  Fd kept;
  while (size > 0) {
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    iovec part{to, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got > 0) {
      take_descriptors(message, kept);
      if (!kept && (message.msg_flags & MSG_CTRUNC) != 0) throw_system("take a descriptor that a peer sent", EMFILE);
      to += got;
      size -= static_cast<size_t>(got);
    } else if (got < 0 && again(errno)) {
      await_ready(fd, POLLIN, limit);
    } else {
      throw_gone(got < 0 ? errno : 0);
    }
  }
  return kept;
}

ptrdiff_t send_now(int fd, std::string_view bytes) {
  ssize_t sent;
  do sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent >= 0 ? sent : again(errno) ? 0 : -1;
}

ptrdiff_t send_now(int fd, std::string_view head, std::string_view rest, std::string_view end) {
  iovec parts[] = {{const_cast<char*>(head.data()), head.size()},
                   {const_cast<char*>(rest.data()), rest.size()},
                   {const_cast<char*>(end.data()), end.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = end.empty() ? 2 : 3;
  ssize_t sent;
  do sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent >= 0 ? sent : again(errno) ? 0 : -1;
}

ptrdiff_t recv_now(int fd, void* into, size_t size) {
  ssize_t got;
  do got = recv(fd, into, size, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  return got > 0 ? got : got < 0 && again(errno) ? 0 : -1;
}

namespace {

/// As the kernel reports it, whatever the peer claims. Unknown for other sockets than UNIX ones.
ucred credentials(int fd) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) peer.pid = 0, peer.uid = static_cast<uid_t>(-1);
  return peer;
}

}  // namespace

int64_t peer_user(int fd) {
  const uid_t user = credentials(fd).uid;
  return user == static_cast<uid_t>(-1) ? -1 : static_cast<int64_t>(user);
}

int64_t peer_process(int fd) { return credentials(fd).pid; }

}  // namespace tutti
