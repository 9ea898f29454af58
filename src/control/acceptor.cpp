#include "control/acceptor.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/messages.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxPending = 4096;
constexpr size_t kUsualListeners = 3;         // a TCP socket, a UNIX socket, and the one that hands out unique ids
constexpr double kAuthenticationSeconds = 5;  // from the accept to the end of the first frame
constexpr double kSweepSeconds = 0.5;
constexpr double kPauseSeconds = 0.1;
constexpr size_t kFewConnections = 8;  // of connections, while descriptors are short
constexpr size_t kChunk = 64 << 10;    // a frame's memory grows as its bytes come

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::string_view bytes_of(const auto& plain) { return {reinterpret_cast<const char*>(&plain), sizeof plain}; }

/// The kernel assigns the lowest free number, so a high number means that all lower ones are in use.
bool is_high(const Fd& fd) { return static_cast<size_t>(fd.get()) >= max_descriptors() / 4 * 3; }

/// Moves `fd` to the lowest free number. Otherwise high numbers would stay in use after lower ones became free.
void move_down(Fd& fd) {
  constexpr int kAboveStdio = 3;
  if (Fd lower(fcntl(fd.get(), F_DUPFD_CLOEXEC, kAboveStdio)); lower) fd = std::move(lower);
}

/// The most pending connections of one listening socket.
size_t max_pending(size_t sockets) {
  return std::max<size_t>(1, std::min(kMaxPending, max_descriptors() / 2) / std::max(sockets, kUsualListeners));
}

/// Makes close() reset the connection, so that the kernel keeps no state of it.
void reset_at_close(int fd) {
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

struct Acceptor::PendingConnection {
  enum class Stage : uint8_t { Claim, Length, Frame };
  /// What the connection has sent.
  struct Request {
    challenge::Claim claim;
    std::array<uint8_t, 4> length{};
    size_t frame_length = 0;
    std::string frame;
    std::shared_ptr<ConnectionHandler> handler;
  };

  PendingConnection(ListeningSocket* at, Fd with) : listening(at), fd(std::move(with)) {}

  ListeningSocket* listening;
  std::unique_ptr<Request> request;  // allocated when its first byte arrives
  Deadline::Clock::time_point accepted_at = Deadline::Clock::now();
  uint32_t index = 0;   // in its group
  uint32_t filled = 0;  // bytes of this stage received so far
  Fd fd;
  Group group = Group::Unauthenticated;
  Stage stage = Stage::Claim;
  challenge::Nonce nonce = challenge::make_hello().nonce;  // sent in our Hello
};

size_t Acceptor::ListeningSocket::connections() const {
  size_t count = 0;
  for (const PendingConnections& group : groups) count += group.size();
  return count;
}

Acceptor::Acceptor(EventLoop& loop, Find find)
    : loop_(loop), find_(std::move(find)), epoll_(epoll_create1(EPOLL_CLOEXEC)), spare_(open_spare()) {
  static_assert(sizeof(PendingConnection) <= 80, "there may be thousands of unauthenticated connections");
  if (!epoll_) throw_error(Code::SystemError, "cannot open epoll: {}", std::strerror(errno));
}
Acceptor::~Acceptor() = default;

void Acceptor::open(int listener) {
  if (watch_ == 0) watch_ = loop_.watch(epoll_.get(), EPOLLIN, [this](uint32_t) { on_events(); });
  ListeningSocket& listening = *listeners_.emplace_back(std::make_unique<ListeningSocket>(ListeningSocket{listener}));
  listening.watch = loop_.watch(listener, paused_ ? 0u : static_cast<uint32_t>(EPOLLIN),
                                [this, &listening](uint32_t) { accept_some(listening); });
}

void Acceptor::close(int listener) {
  const auto listening =
      std::find_if(listeners_.begin(), listeners_.end(), [&](const auto& d) { return d->listener == listener; });
  if (listening == listeners_.end()) return;
  loop_.unwatch((*listening)->watch);
  for (PendingConnections& group : (*listening)->groups) {
    while (!group.empty()) detach(*group.back());
  }
  listeners_.erase(listening);
}

// ---- accepting and evicting

void Acceptor::accept_some(ListeningSocket& listening) {
  for (int i = 0; i < 64; ++i) {  // then other events are handled
    Fd fd = accept_now(listening.listener);
    const int error = fd ? 0 : errno;
    if (fd) {
      accept_error_ = 0;
      send_hello(listening, std::move(fd));
    } else if (!out_of_descriptors(error) && error != ENOBUFS && error != ENOMEM) {
      return;
    } else if (!evict_from_fullest(kFewConnections)) {
      if (out_of_descriptors(error)) reject_without_descriptor(listening.listener, error);
      return pause(true);  // else the loop would spin
    }
  }
}

/// Tells connecting peers that no descriptor is left, so that they need not wait for a time-out.
void Acceptor::reject_without_descriptor(int listener, int error) {
  accept_error_ = error;
  if (!warned_) log_warn("connections of other ranks cannot be accepted: {}", system_words(error));
  warned_ = true;
  for (int i = 0; i < 64; ++i) {
    spare_.reset();
    const Fd fd = accept_now(listener);
    if (!fd) break;
    const challenge::Hello hello{challenge::kNoDescriptor, {}};
    send_now(fd.get(), bytes_of(hello));
  }
  spare_ = open_spare();
}

std::string Acceptor::accept_error_text() const {
  const int error = accept_error_;
  return error == 0 ? "" : fmt::format("; this process could not accept connections: {}", system_words(error));
}

void Acceptor::send_hello(ListeningSocket& listening, Fd fd) {
  const Group group = peer_user(fd.get()) == static_cast<int64_t>(geteuid()) ? Group::ThisUser : Group::Unauthenticated;
  const bool full = listening.connections() >= max_pending(listeners_.size());
  if (full && !evict_for(listening, group)) return;
  if (is_high(fd) && evict_from_fullest(kFewConnections)) move_down(fd);
  auto connection = std::make_unique<PendingConnection>(&listening, std::move(fd));
  challenge::Hello hello;
  hello.nonce = connection->nonce;
  // A fresh socket accepts 40 bytes. A connection whose socket does not is dropped.
  if (send_now(connection->fd.get(), bytes_of(hello)) != sizeof hello) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = connection.get();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) return;
  insert(std::move(connection), group);
  if (sweep_ == 0) sweep_ = loop_.at(Deadline::in(kSweepSeconds), [this] { sweep(); });
}

/// Evicts one connection of this listening socket. False if none may be evicted for `for_group`.
bool Acceptor::evict_for(ListeningSocket& listening, Group for_group) {
  for (const Group group : {Group::Unauthenticated, Group::Authenticated, Group::ThisUser}) {
    if (group == Group::ThisUser && for_group != group) return false;
    PendingConnections& connections = listening.of(group);
    if (connections.empty()) continue;
    evict(*connections[random_u64() % connections.size()]);
    return true;
  }
  return false;
}

/// Evicts one connection of the fullest listening socket. False if no socket has more than `kept` connections: so few
/// are not evicted for each other while they authenticate.
bool Acceptor::evict_from_fullest(size_t kept) {
  const auto fullest = std::max_element(listeners_.begin(), listeners_.end(), [](const auto& a, const auto& b) {
    return a->connections() < b->connections();
  });
  return fullest != listeners_.end() && (*fullest)->connections() > kept && evict_for(**fullest, Group::ThisUser);
}

/// While paused, connections wait in the kernel's queue.
void Acceptor::pause(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  for (const auto& listening : listeners_) loop_.change(listening->watch, paused ? 0u : static_cast<uint32_t>(EPOLLIN));
  if (paused) loop_.at(Deadline::in(kPauseSeconds), [this] { pause(false); });
}

/// Closes connections that have been pending for too long.
void Acceptor::sweep() {
  sweep_ = 0;
  const auto now = Deadline::Clock::now();
  bool some = false;
  for (const auto& listening : listeners_) {
    for (PendingConnections& connections : listening->groups) {
      for (size_t i = connections.size(); i-- > 0;) {
        if (now - connections[i]->accepted_at > std::chrono::duration<double>(kAuthenticationSeconds))
          evict(*connections[i]);
      }
      some = some || !connections.empty();
    }
  }
  if (some) sweep_ = loop_.at(Deadline::in(kSweepSeconds), [this] { sweep(); });
}

void Acceptor::insert(std::unique_ptr<PendingConnection> connection, Group group) {
  PendingConnections& connections = connection->listening->of(group);
  connection->group = group;
  connection->index = static_cast<uint32_t>(connections.size());
  connections.push_back(std::move(connection));
}

/// Removes the connection from its group; the group's last connection takes its index.
std::unique_ptr<Acceptor::PendingConnection> Acceptor::remove(PendingConnection& connection) {
  PendingConnections& connections = connection.listening->of(connection.group);
  connections.back()->index = connection.index;
  std::swap(connections[connection.index], connections.back());
  auto taken = std::move(connections.back());
  connections.pop_back();
  return taken;
}

/// A forked child may hold the descriptor too. Then close() alone would not end its events.
std::unique_ptr<Acceptor::PendingConnection> Acceptor::detach(PendingConnection& connection) {
  if (connection.fd) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd.get(), nullptr);
  return remove(connection);
}

void Acceptor::evict(PendingConnection& connection) {
  reset_at_close(connection.fd.get());
  detach(connection);
}

// ---- authenticating

void Acceptor::on_events() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    // Each connection has at most one event, and handling it removes no other connection.
    auto& connection = *static_cast<PendingConnection*>(events[static_cast<size_t>(i)].data.ptr);
    if (!advance(connection)) continue;
    const auto taken = detach(connection);  // complete, or rejected
    if (taken->stage == PendingConnection::Stage::Frame && taken->filled == taken->request->frame_length) admit(*taken);
  }
}

/// True when the connection is no longer pending.
bool Acceptor::advance(PendingConnection& v) {
  if (!v.request) v.request = std::make_unique<PendingConnection::Request>();
  PendingConnection::Request& request = *v.request;
  if (v.stage == PendingConnection::Stage::Claim) {
    if (!read_exactly(v, &request.claim, sizeof request.claim)) return !v.fd;
    if (!check_claim(v)) return true;
    if (v.group == Group::Unauthenticated) insert(remove(v), Group::Authenticated);
    v.stage = PendingConnection::Stage::Length;
    v.filled = 0;
  }
  if (v.stage == PendingConnection::Stage::Length) {
    if (!read_exactly(v, request.length.data(), request.length.size())) return !v.fd;
    for (size_t i = 0; i < request.length.size(); ++i)
      request.frame_length |= static_cast<size_t>(request.length[i]) << (8 * i);
    if (request.frame_length > kMaxFirstFrame) return true;
    v.stage = PendingConnection::Stage::Frame;
    v.filled = 0;
  }
  return read_frame(v) || !v.fd;
}

/// Reads exactly the `size` bytes of this stage; later bytes belong to the connection's handler. True when complete.
/// Closes the descriptor when the peer has ended the connection.
bool Acceptor::read_exactly(PendingConnection& v, void* into, size_t size) {
  while (v.filled < size) {
    const ptrdiff_t got = recv_now(v.fd.get(), static_cast<char*>(into) + v.filled, size - v.filled);
    if (got < 0) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, v.fd.get(), nullptr);
      v.fd.reset();
    }
    if (got <= 0) return false;
    v.filled += static_cast<uint32_t>(got);
  }
  return true;
}

bool Acceptor::read_frame(PendingConnection& v) {
  PendingConnection::Request& request = *v.request;
  while (v.filled < request.frame_length) {
    const size_t end = std::min(request.frame_length, v.filled + kChunk);
    if (request.frame.size() < end) request.frame.resize(end);
    if (!read_exactly(v, request.frame.data(), end)) return false;
  }
  return true;
}

bool Acceptor::check_claim(PendingConnection& v) {
  const challenge::Claim& claim = v.request->claim;
  challenge::Hello hello;
  hello.nonce = v.nonce;
  v.request->handler = find_(std::string(claim.key_name.data(), claim.key_name.size()));
  if (!v.request->handler || !challenge::check_claim(v.request->handler->key(), hello, claim)) {
    log_debug("control thread: turned away a connection that does not know the key");
    send_now(v.fd.get(), bytes_of(challenge::kUnknownKey));
    return false;
  }
  const auto proof = challenge::make_proof(v.request->handler->key(), hello, claim);
  return send_now(v.fd.get(), bytes_of(proof)) == sizeof proof;
}

void Acceptor::admit(PendingConnection& v) {
  send_without_delay(v.fd.get());
  try {
    v.request->handler->on_connection(v.fd, v.request->frame);
  } catch (const Error& error) {
    log_debug("control thread: refused a connection: {}", error.what());
    const Refused refused{error.code(), std::string(error.what()).substr(0, kMaxSmall)};
    if (v.fd) send_now(v.fd.get(), pack(refused));
  }
}

}  // namespace tutti::control
