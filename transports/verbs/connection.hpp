// What both ends of a link have: queue pairs to the peer, and the stream over which they were agreed on.
//
// The writer sends a Hello; the reader answers with its own when its queues can receive. The reader sends nothing
// before the writer's first notice, which shows that the writer's queues can receive.
#pragma once

#include <memory>
#include <vector>

#include "base/deadline.hpp"
#include "transports/link_stream.hpp"
#include "transports/verbs/wire.hpp"

namespace tutti::transports::verbs {

/// The id of a work request: which end, which queue, and how many the queue was given before.
struct WorkId {
  uint32_t end = 0;    ///< 23 bits
  uint32_t queue = 0;  ///< 8 bits
  uint32_t sequence = 0;
  bool receive = false;

  uint64_t word() const { return uint64_t{receive} << 63 | uint64_t{end} << 40 | uint64_t{queue} << 32 | sequence; }
  static WorkId of(uint64_t word) {
    return {static_cast<uint32_t>(word >> 40 & 0x7fffff), static_cast<uint32_t>(word >> 32 & 0xff),
            static_cast<uint32_t>(word), (word >> 63) != 0};
  }
};

/// Position in a queue: done when the queue has completed so many work requests.
struct QueueMark {
  uint32_t queue = 0;
  uint64_t works = 0;
};

class Connection : public LinkStream {
 public:
  Connection(Nic& nic, const Who& who);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool ready() const { return phase_ == Phase::Ready; }

  /// Writer: `queues` queue pairs, and a Hello to the peer. Throws Error.
  void open(Fd stream, uint32_t queues, const Region& area, const Deadline& deadline);
  /// Reader: the peer's stream has come.
  void attach(Fd stream, const Region& area);
  /// Reads what the peer has sent on the stream: its Hello, or its goodbye. Never waits.
  Status read_stream(bool& moved);
  /// Nothing is sent or received any more.
  void stop();

  const Hello& peer() const { return peer_; }
  uint32_t queues() const { return static_cast<uint32_t>(queues_.size()); }

  /// Has the queue room for `count` work requests?
  bool has_room(uint32_t queue, uint32_t count = 1) const {
    return queues_[queue].posted - queues_[queue].done + count <= works_;
  }
  /// Posts it; needs room, for two if it is a notice. Sets `id`, and asks for a completion from time to time.
  Status post(uint32_t queue, Work& work);
  /// Position after what has been posted.
  QueueMark place(uint32_t queue) const { return {queue, queues_[queue].posted}; }
  bool is_done(const QueueMark& place) const { return queues_[place.queue].done >= place.works; }
  bool all_done() const;
  /// Asks for a completion of all that has been posted.
  Status ask_for_completions();
  /// A completion of this end. A notice is passed on in `notice` with `has_notice`.
  Status complete(const Completion& completion, bool& has_notice);
  /// Is it one of this end's queues?
  bool has_queue(uint32_t number) const;
  /// The peer has told that it received everything.
  void assume_all_done();

 private:
  enum class Phase : uint8_t { New, Hello, Ready, Stopped };
  struct QueueState {
    std::unique_ptr<Queue> queue;
    uint64_t posted = 0, done = 0, asked = 0;  // asked: a completion will tell that so many are done
  };

  void make_queues(uint32_t count);
  void send_hello(const Region& area);
  Status take_hello();
  Status post_one(uint32_t queue, Work& work);

  Nic& nic_;
  const uint32_t works_;
  Phase phase_ = Phase::New;
  const Region* area_ = nullptr;
  std::vector<QueueState> queues_;
  Hello peer_{};
};

}  // namespace tutti::transports::verbs
