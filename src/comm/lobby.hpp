// Where connections arrive. Nobody gets past the lobby without proving a key that this process knows; until then a
// visitor is answered with messages of fixed size, holds one of a few places, and is shown out after 5 seconds.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/secret.hpp"
#include "comm/loop.hpp"

namespace tutti::comm {

/// What stands behind a key.
class Party {
 public:
  virtual ~Party() = default;
  virtual const Key& key() const = 0;
  /// A connection that proved the key, with its first frame's body. On the control thread; must not wait. Throwing an
  /// Error sends it back as Refused, if `fd` has not been moved from.
  virtual void welcome(Fd& fd, std::string_view first) = 0;
};

/// Lives on the control thread.
class Lobby {
 public:
  /// Finds the party of a key's public name; null if this process has none.
  using Find = std::function<std::shared_ptr<Party>(const std::string& key_name)>;

  Lobby(Loop& loop, Find find);
  ~Lobby();

  /// Accepts at `listener` from now on, which must stay open until close().
  void open(int listener);
  void close(int listener);

  /// "; this process could not accept connections: …" where that has been so since the last one it could; else "". Any
  /// thread.
  std::string trouble() const;

 private:
  struct Visitor;
  struct Door {
    int fd;
    Loop::Id watch;
  };

  void accept_some(int listener);
  void turn_away(int listener, int error);
  bool make_room();
  void pause(bool paused);
  void greet(Fd fd);
  void on_events(uint64_t number);
  bool advance(Visitor& visitor);
  bool read_exactly(Visitor& visitor, void* into, size_t size);
  bool check_claim(Visitor& visitor);
  void admit(Visitor& visitor);
  void dismiss(uint64_t number);

  Loop& loop_;
  const Find find_;
  std::vector<Door> doors_;
  bool paused_ = false;
  Fd spare_;                          // given up to turn somebody away when there is no other
  std::atomic<int> accept_error_{0};  // errno
  bool warned_ = false;
  uint64_t next_ = 1;
  std::map<uint64_t, std::unique_ptr<Visitor>> visitors_;  // in the order of their coming
};

}  // namespace tutti::comm
