#include "control/status/tcp_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/fd.hpp"

namespace tutti::control {
namespace {

/// Address and port as the kernel's question has them. IPv6 addresses of IPv4 are those.
struct End {
  uint8_t family = 0;
  uint16_t port = 0;  // network order
  std::array<uint32_t, 4> address{};
};

End end_of(const sockaddr_storage& at) {
  End end;
  if (at.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at);
    end = {.family = AF_INET, .port = v4.sin_port, .address = {v4.sin_addr.s_addr}};
    return end;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at);
  end.port = v6.sin6_port;
  const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  end.family = is_v4 ? AF_INET : AF_INET6;
  std::memcpy(end.address.data(), v6.sin6_addr.s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
  return end;
}

/// The user of this host's socket with these ends (sock_diag(7)); −1: there is none, or the kernel does not say.
int64_t user_of(const End& local, const End& remote) {
  struct {
    nlmsghdr head{};
    inet_diag_req_v2 body{};
  } request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = local.family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  request.body.id.idiag_sport = local.port;
  request.body.id.idiag_dport = remote.port;
  std::memcpy(request.body.id.idiag_src, local.address.data(), sizeof local.address);
  std::memcpy(request.body.id.idiag_dst, remote.address.data(), sizeof remote.address);
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd || send(fd.get(), &request, sizeof request, MSG_DONTWAIT) != sizeof request) return -1;
  alignas(nlmsghdr) std::array<char, 8192> reply{};
  const ssize_t got = recv(fd.get(), reply.data(), reply.size(), MSG_DONTWAIT);  // the kernel has answered by now
  const auto* const head = reinterpret_cast<const nlmsghdr*>(reply.data());
  if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return -1;
  return static_cast<const inet_diag_msg*>(NLMSG_DATA(head))->idiag_uid;
}

}  // namespace

bool is_other_users(int fd) {
  sockaddr_storage peer{}, own{};
  socklen_t peer_size = sizeof peer, own_size = sizeof own;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return false;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  const int64_t user = user_of(end_of(peer), end_of(own));
  return user > 0 && user != static_cast<int64_t>(geteuid());
}

}  // namespace tutti::control
