#include "support/fake_wireup.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/format.hpp"

namespace tutti::test {
namespace {

using transports::Wireup;

/// One packet: who calls, "stream" or "ask", a name (label or service), a request.
struct Packet {
  std::string text;
  Fd fd;
};

std::pair<sockaddr_un, socklen_t> address_of(const std::string& job, Rank rank) {
  const std::string name = fmt::format("tutti-test-{}-{}", job, rank);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading 0: no file
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

void send_packet(const Fd& to, const std::string& text, int fd = -1) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  if (::sendmsg(to.get(), &message, MSG_NOSIGNAL) < 0) throw_error(Code::PeerFailed, "send: {}", std::strerror(errno));
}

Packet receive_packet(const Fd& from, Deadline deadline) {
  pollfd wait{from.get(), POLLIN, 0};
  if (::poll(&wait, 1, deadline.poll_ms(30000)) <= 0) throw_error(Code::Timeout, "no answer");
  std::vector<char> bytes(8192);
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(from.get(), &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) throw_error(Code::PeerFailed, "the peer hung up");
  Packet packet{std::string(bytes.data(), static_cast<size_t>(got)), Fd()};
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    packet.fd = Fd(fd);
  }
  return packet;
}

/// Two ends of a new TCP connection.
std::pair<Fd, Fd> tcp_pair() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  Fd near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool connected = ::bind(listener.get(), any, size) == 0 && ::listen(listener.get(), 1) == 0 &&
                         ::getsockname(listener.get(), any, &size) == 0 && ::connect(near.get(), any, size) == 0;
  Fd far(connected ? ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC) : -1);
  if (!far) throw_error(Code::SystemError, "no loopback connection: {}", std::strerror(errno));
  return {std::move(near), std::move(far)};
}

}  // namespace

FakeWireup::FakeWireup(std::string job, Rank rank, Rank ranks)
    : everywhere{"this host", static_cast<uint32_t>(::getpid()), 1}, job_(std::move(job)), rank_(rank), ranks_(ranks) {
  stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto [address, size] = address_of(job_, rank_);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), 128) != 0) {
    throw_error(Code::SystemError, "rank {} of job {} cannot listen: {}", rank_, job_, std::strerror(errno));
  }
  thread_ = std::thread([this] { answer_calls(); });
}

FakeWireup::~FakeWireup() {
  const uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof one) == sizeof one) thread_.join();
}

const transports::ProcessId& FakeWireup::process_id(Rank rank) const {
  return apart_ && rank != rank_ ? elsewhere_ : everywhere;
}

void FakeWireup::answer_calls() {
  pollfd wait[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (::poll(wait, 2, -1) >= 0 && wait[1].revents == 0) {
    const Fd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    try {
      if (caller) answer(caller);
    } catch (const Error&) {  // the caller is gone
    }
  }
}

void FakeWireup::answer(const Fd& caller) {
  Packet packet = receive_packet(caller, Deadline::in(10));
  const auto [from, kind, name, request] = [&] {
    const std::string& t = packet.text;
    const size_t a = t.find('|'), b = t.find('|', a + 1), c = t.find('|', b + 1);
    return std::tuple(std::stoi(t.substr(0, a)), t.substr(a + 1, b - a - 1), t.substr(b + 1, c - b - 1),
                      t.substr(c + 1));
  }();
  if (kind == "stream") {
    const std::lock_guard lock(mutex_);
    const auto taker = takers_.find(name);
    if (taker != takers_.end()) {
      taker->second(from, std::move(packet.fd));
    } else {
      arrived_[{from, name}] = std::move(packet.fd);
    }
    send_packet(caller, "taken");
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto service = services_.find(name);
  if (service == services_.end()) return;  // the caller tries again
  const Reply reply = service->second(from, request);
  send_packet(caller, reply.bytes, reply.fd.get());
}

Fd FakeWireup::call(Rank peer, Deadline deadline) const {
  const auto [address, size] = address_of(job_, peer);
  while (!deadline.passed()) {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
    std::this_thread::yield();  // it does not listen yet
  }
  throw_error(Code::Timeout, "rank {} does not listen", peer);
}

Fd FakeWireup::open_stream(Rank peer, const std::string& label, Deadline deadline) {
  auto [near, far] = tcp_pair();
  const Fd fd = call(peer, deadline);
  send_packet(fd, fmt::format("{}|stream|{}|", rank_, label), far.get());
  receive_packet(fd, deadline);
  return std::move(near);
}

std::optional<Fd> FakeWireup::take_stream(Rank peer, const std::string& label) {
  const std::lock_guard lock(mutex_);
  const auto found = arrived_.find({peer, label});
  if (found == arrived_.end()) return std::nullopt;
  Fd fd = std::move(found->second);
  arrived_.erase(found);
  return fd;
}

void FakeWireup::receive_streams(const std::string& label, std::function<void(Rank from, Fd stream)> take) {
  const std::lock_guard lock(mutex_);
  takers_[label] = std::move(take);
}

void FakeWireup::serve(const std::string& name, Service service) {
  const std::lock_guard lock(mutex_);
  if (service) {
    services_[name] = std::move(service);
  } else {
    services_.erase(name);
  }
}

Wireup::Reply FakeWireup::ask(Rank peer, const std::string& service, const std::string& request, Deadline deadline) {
  while (!deadline.passed()) {
    const Fd fd = call(peer, deadline);
    send_packet(fd, fmt::format("{}|ask|{}|{}", rank_, service, request));
    try {
      Packet packet = receive_packet(fd, deadline);
      return {std::move(packet.text), std::move(packet.fd)};
    } catch (const Error& error) {
      if (error.code() != Code::PeerFailed) throw;
      std::this_thread::yield();  // the service is not there yet
    }
  }
  throw_error(Code::Timeout, "rank {} offers no service {}", peer, service);
}

}  // namespace tutti::test
