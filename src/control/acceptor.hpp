// Accepts connections and authenticates them. A connection that has not proven a key of this process gets messages of
// fixed size only. It costs about 150 bytes and one descriptor, and it is closed after 5 seconds.
//
// Unauthenticated connections may arrive by the thousand each second and send nothing. Each listening socket may have a
// fixed number of pending connections. Once it has that many, each new connection evicts an unauthenticated one, picked
// at random. An honest peer authenticates within milliseconds, so it is rarely the one picked; if it is, its dial tries
// again (control/bootstrap/dial.hpp). Evicting the oldest would be worse: among thousands, every honest connection that
// needs a moment would soon be the oldest. Connections that have proven the key, and processes of this user at a UNIX
// socket, are not evicted for unauthenticated ones. All pending connections together use at most half of the
// descriptors that this process may have, and only a few once three quarters of the descriptors are in use.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/secret.hpp"
#include "control/event_loop.hpp"

namespace tutti::control {

/// Serves the connections that have proven one key.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual const Key& key() const = 0;
  /// Takes a connection that has proven the key, with the body of its first frame. Runs on the control thread and must
  /// not wait. A thrown Error is sent back as Refused, unless `fd` has been moved from.
  virtual void on_connection(Fd& fd, std::string_view first) = 0;
};

/// Belongs to the control thread.
class Acceptor {
 public:
  /// Finds the handler of a key's public name; null if this process has none.
  using Find = std::function<std::shared_ptr<ConnectionHandler>(const std::string& key_name)>;

  Acceptor(EventLoop& loop, Find find);
  ~Acceptor();

  /// Accepts connections on `listener` until close(); `listener` must stay open until then.
  void open(int listener);
  /// Stops accepting on `listener` and closes its pending connections.
  void close(int listener);

  /// The text "; this process could not accept connections: …" if the last attempt to accept failed, else "". Any
  /// thread.
  std::string accept_error_text() const;

 private:
  /// In the order of eviction.
  enum class Group : uint8_t { Unauthenticated, Authenticated, ThisUser };
  static constexpr size_t kGroups = 3;
  struct PendingConnection;
  using PendingConnections = std::vector<std::unique_ptr<PendingConnection>>;
  struct ListeningSocket {
    int listener;
    EventLoop::Id watch = 0;
    std::array<PendingConnections, kGroups> groups;

    PendingConnections& of(Group group) { return groups[static_cast<size_t>(group)]; }
    size_t connections() const;
  };

  void accept_some(ListeningSocket& listening);
  void reject_without_descriptor(int listener, int error);
  void send_hello(ListeningSocket& listening, Fd fd);
  bool evict_for(ListeningSocket& listening, Group for_group);
  bool evict_from_fullest(size_t kept);
  void pause(bool paused);
  void on_events();
  void sweep();

  bool advance(PendingConnection& connection);
  bool read_exactly(PendingConnection& connection, void* into, size_t size);
  bool read_frame(PendingConnection& connection);
  bool check_claim(PendingConnection& connection);
  void admit(PendingConnection& connection);
  static void insert(std::unique_ptr<PendingConnection> connection, Group group);
  static std::unique_ptr<PendingConnection> remove(PendingConnection& connection);
  std::unique_ptr<PendingConnection> detach(PendingConnection& connection);
  void evict(PendingConnection& connection);

  EventLoop& loop_;
  const Find find_;
  const Fd epoll_;  // of all pending connections; the loop watches this one descriptor
  std::vector<std::unique_ptr<ListeningSocket>> listeners_;
  EventLoop::Id watch_ = 0, sweep_ = 0;
  bool paused_ = false;
  Fd spare_;                          // closed to free a descriptor for rejecting a connection when none is left
  std::atomic<int> accept_error_{0};  // errno
  bool warned_ = false;
};

}  // namespace tutti::control
