// The stream of a link: each end sends a Hello and the address of its worker. The reader does when its worker knows
// the writer's. Then each end says that its endpoint to the other is settled: UCX needs nothing of the peer any more to
// send on it. No message is sent over UCX before both have, since a rank may leave its call, and so make no progress,
// as soon as it has its message.
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
  bool ready() const { return settled_ && peer_settled_; }
  /// This end's endpoint is settled: tells the peer, once. Throws Error.
  void set_settled();
  bool settled() const { return settled_; }
  /// What this end's headers must have.
  uint64_t token() const { return token_; }
  const Hello& peer() const { return peer_; }

  /// Throws Error.
  void say_hello(const std::string& address);
  /// Reads what the peer has sent. Never waits. `address` gets its worker's, once.
  Status read(bool& moved, std::string& address);

  /// Where the peer is not a process, as in tests.
  void set_ready() { settled_ = peer_settled_ = true; }

  /// UCX has lost the peer. A peer that closes says so on the stream, perhaps a little later: it gets some time.
  Status lost(const char* text);

 private:
  const uint64_t token_;
  Hello peer_{};
  bool has_hello_ = false, greeted_ = false, settled_ = false, peer_settled_ = false;
  bool lost_ = false;
  Deadline goodbye_until_ = Deadline::in(0);
};

}  // namespace tutti::transports::ucx
