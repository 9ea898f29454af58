// The stream of a link: each end sends a Hello and the address of its worker. The reader does when its worker knows the
// writer's. Nothing is sent over UCX before that.
#pragma once

#include <string>

#include "base/deadline.hpp"
#include "transports/link_stream.hpp"
#include "transports/ucx/wire.hpp"

namespace tutti::transports::ucx {

class Stream : public LinkStream {
 public:
  explicit Stream(const Who& who);

  /// The peer's greeting has come.
  bool greeted() const { return greeted_; }
  bool ready() const { return ready_; }
  /// What this end's headers must have.
  uint64_t token() const { return token_; }
  const Hello& peer() const { return peer_; }

  /// Throws Error.
  void say_hello(const std::string& address);
  /// Reads what the peer has sent. Never waits. `address` gets its worker's, once.
  Status read(bool& moved, std::string& address);
  void set_ready() { ready_ = true; }

  /// UCX has lost the peer. A peer that closes says so on the stream, perhaps a little later: it gets some time.
  Status lost(const char* text);

 private:
  const uint64_t token_;
  Hello peer_{};
  bool has_hello_ = false, greeted_ = false, ready_ = false;
  bool lost_ = false;
  Deadline goodbye_until_ = Deadline::in(0);
};

}  // namespace tutti::transports::ucx
