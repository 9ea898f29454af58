// What a hostile member answers those who connect to it: what a rank would, or what it was told to.
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
#include "transports/shm/segment.hpp"

namespace tutti::fuzz {

/// For a moment: a member that does not answer must not take the fuzzer's time.
inline WaitLimit brief() { return {Deadline::in(0.2), nullptr}; }

/// Takes in a connection: proves the key to whoever has made it. The body of its first frame.
std::string take_in(const Fd& fd, const Key& key);
/// Proves the key to whoever has taken in a connection.
void prove(const Fd& fd, const Key& key);
/// `body` behind its length.
std::string framed(const std::string& body);

/// Memory as an answer brings it along: sealed or not, with anything in it.
Fd some_memory(Words& words);

class Answers {
 public:
  explicit Answers(const Accomplice& accomplice);

  uint16_t port() const { return port_; }
  /// From now on to members of the communicator with this key. What was prepared is forgotten.
  void restart(const Key& key);
  /// Instead of the next answer that a rank would give.
  void prepare(std::string frame, Fd fd);
  /// What has come on the stream that was opened to this member last.
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
  std::mutex mutex_;  // guards what follows
  Key key_{};
  std::deque<Prepared> prepared_;
  std::vector<Fd> streams_;
  transports::Segment arena_;
};

}  // namespace tutti::fuzz
