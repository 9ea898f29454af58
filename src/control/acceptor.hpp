// Where connections arrive. Nobody gets past the acceptor without proving a key that this process knows; until then a
// connection is answered with messages of fixed size, costs about 150 bytes and a descriptor, and is shown out after 5
// seconds.
//
// Strangers may come by the thousand each second and say nothing. Each listening socket has places of its own; when all
// of them are taken, a newcomer gets the place of a stranger picked at random. Who knows the key is through within
// milliseconds, so it is seldom the one; if it is, its dial tries again (control/bootstrap/dial.hpp). The one that came
// first would be a worse choice: among thousands it is any honest connection that needs a moment. PendingConnections
// that have proven the key, and processes of this user at a UNIX socket, make no room for strangers. All connections
// together take half of the descriptors that this process may have at the most, and no more than a handful while three
// quarters are in use.
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

/// What stands behind a key.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual const Key& key() const = 0;
  /// A connection that proved the key, with its first frame's body. On the control thread; must not wait. Throwing an
  /// Error sends it back as Refused, if `fd` has not been moved from.
  virtual void welcome(Fd& fd, std::string_view first) = 0;
};

/// Lives on the control thread.
class Acceptor {
 public:
  /// Finds the handler of a key's public name; null if this process has none.
  using Find = std::function<std::shared_ptr<ConnectionHandler>(const std::string& key_name)>;

  Acceptor(EventLoop& loop, Find find);
  ~Acceptor();

  /// Accepts at `listener` from now on, which must stay open until close().
  void open(int listener);
  /// Accepts no more there, and shows out whoever came that way and is not through yet.
  void close(int listener);

  /// "; this process could not accept connections: …" where that has been so since the last one it could; else "". Any
  /// thread.
  std::string trouble() const;

 private:
  /// In the order in which they make room.
  enum class Group : uint8_t { Strangers, Proven, ThisUser };
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
  void turn_away(int listener, int error);
  void greet(ListeningSocket& listening, Fd fd);
  bool make_room(ListeningSocket& listening, Group newcomer);
  bool make_room_anywhere(size_t kept);
  void pause(bool paused);
  void on_events();
  void sweep();

  bool advance(PendingConnection& connection);
  bool read_exactly(PendingConnection& connection, void* into, size_t size);
  bool read_frame(PendingConnection& connection);
  bool check_claim(PendingConnection& connection);
  void admit(PendingConnection& connection);
  static void enter(std::unique_ptr<PendingConnection> connection, Group group);
  static std::unique_ptr<PendingConnection> leave(PendingConnection& connection);
  std::unique_ptr<PendingConnection> take_out(PendingConnection& connection);
  void turn_out(PendingConnection& connection);

  EventLoop& loop_;
  const Find find_;
  const Fd epoll_;  // of all connections, watched by the loop as one
  std::vector<std::unique_ptr<ListeningSocket>> sockets_;
  EventLoop::Id watch_ = 0, sweep_ = 0;
  bool paused_ = false;
  Fd spare_;                          // given up to turn somebody away when there is no other
  std::atomic<int> accept_error_{0};  // errno
  bool warned_ = false;
};

}  // namespace tutti::control
