// The stream over which a link was agreed on. It stays open: its end means that the peer has closed the link, or died.
//
// The writer opens it and sends a Hello; the reader answers with its own when its worker knows the writer's. Nothing is
// sent over UCX before that.
#pragma once

#include <string>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "base/rank.hpp"
#include "base/status.hpp"
#include "transports/ucx/wire.hpp"

namespace tutti::transports::ucx {

class Stream {
 public:
  struct Who {
    Rank peer = kNoRank;
    uint32_t link_lane = 0;
    uint32_t end = 0;  ///< of this rank's writing or reading ends
    bool writes = false;
  };
  explicit Stream(const Who& who);

  const Who& who() const { return who_; }
  /// "ucx: the link to rank 3 (link lane 0)"
  std::string name() const;
  /// The peer's greeting has come.
  bool greeted() const { return greeted_; }
  bool ready() const { return ready_; }
  /// What this end's headers must have.
  uint64_t token() const { return token_; }
  const Hello& peer() const { return peer_; }

  void attach(Fd stream) { stream_ = std::move(stream); }
  /// Throws Error.
  void say_hello(const std::string& address);
  /// Reads what the peer has sent. Never waits. Returns true once, when the peer's greeting is complete: `address`.
  Status read(bool& moved, bool& greeted, std::string& address);
  void set_ready() { ready_ = true; }

  /// Tells the peer that this end closes, having received `messages`.
  void say_goodbye(uint64_t messages) noexcept;
  static constexpr uint64_t kLost = ~uint64_t{0};
  bool closed() const { return closed_; }
  /// Messages that the peer had received when it closed; kLost: it said nothing, so it has died, or failed.
  uint64_t received_by_peer() const { return goodbye_; }

  /// UCX has lost the peer. A peer that closes says so on the stream, perhaps a little later: it gets some time.
  Status lost(const char* text);

 private:
  Status take(const char* bytes, bool& greeted);

  const Who who_;
  const uint64_t token_;
  Fd stream_;
  Hello peer_{};
  bool has_hello_ = false, greeted_ = false, ready_ = false, closed_ = false;
  std::string bytes_;  // of what comes next
  uint64_t goodbye_ = kLost;
  bool lost_ = false;
  Deadline goodbye_until_ = Deadline::in(0);
};

}  // namespace tutti::transports::ucx
