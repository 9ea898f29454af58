// A hostile member's replies to connections: a correct rank's, or prepared ones.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/secret.hpp"
#include "base/socket.hpp"
#include "fuzz/member/accomplice.hpp"
#include "fuzz/member/words.hpp"
#include "link/link.hpp"
#include "link/segment.hpp"

namespace tutti::fuzz {

/// Short: a member that does not reply must not use up the fuzzer's time.
inline WaitLimit brief() { return {Deadline::in(0.2), nullptr}; }

/// Accepts a connection and authenticates it. Returns the body of its first frame.
std::string take_in(const Fd& fd, const Key& key);
/// Authenticates at the accepting end.
void prove(const Fd& fd, const Key& key);
/// `body` with its length prefix.
std::string framed(const std::string& body);

/// Memory to attach to a reply: sealed or not, with random content.
Fd some_memory(Words& words);

class Answers {
 public:
  explicit Answers(const Accomplice& accomplice);

  uint16_t port() const { return port_; }
  /// Serves the communicator with this key from now on. Drops prepared replies.
  void restart(const Key& key);
  /// Replaces the next correct reply.
  void prepare(std::string frame, Fd fd);
  /// The bytes received on the stream that was opened last.
  std::string receive();
  /// The link of a channel, in the arena that was handed out; null before.
  link::LinkMemory* link(uint32_t channel);

  static constexpr uint64_t kArena = 1 << 21;       ///< bytes
  static constexpr uint32_t kTransfers = 1U << 16;  ///< channel of sends and receives

 private:
  struct Prepared {
    std::string frame;
    Fd fd;
  };
  void serve();
  void answer(Fd fd);
  Prepared honest(const std::string& request);

  const int unix_;
  const Fd tcp_ = listen_tcp(0);
  const uint16_t port_ = port_of(tcp_.get());
  std::mutex mutex_;  // guards the members below
  Key key_{};
  std::deque<Prepared> prepared_;
  std::vector<Fd> streams_;
  link::Segment arena_;
};

}  // namespace tutti::fuzz
