// The reading end of a link: puts the messages that the peer has written into a ring of this process, and tells the
// peer what has been consumed and where the next long messages go.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "link/host_memory.hpp"
#include "transports/verbs/connection.hpp"
#include "transports/verbs/memory.hpp"

namespace tutti::transports::verbs {

class InEnd {
 public:
  InEnd(Nic& nic, const Connection::Who& who);

  /// The peer's stream has come.
  void attach(Fd stream) { connection_.attach(std::move(stream), *landing_.region); }
  link::InLink link() const {
    return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = out_.peer, .addresses = true};
  }
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  uint64_t received() const { return out_.next; }

  Status notice(uint32_t word);
  /// Publishes what has come, and tells the peer what it needs to know. Never waits.
  Status progress(bool& moved);
  void stop() { connection_.stop(); }

 private:
  /// Where a long message goes, once the peer knows.
  using Destination = std::unique_ptr<Buffer>;

  Status take_header();
  Status take_destination(const Header& header);
  Status wrong(const char* what, const Header& header) const;
  bool is_complete(const Header& header) const;
  Status publish(bool& moved);
  void reclaim();
  Status send_credit();
  Status send_adverts();
  Status advertise(uint64_t number, const Buffer& to);
  Destination make_destination();

  Nic& nic_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::OutLink out_;
  Buffer landing_;

  uint64_t arrived_ = 0;                    // messages whose headers have come
  std::array<Header, kSlots> headers_{};    // copies, checked
  std::array<uint8_t, kSlots> stripes_{};   // that have come, by message
  std::array<Destination, kSlots> in_use_;  // of the message in each slot of the ring
  uint64_t reclaimed_ = 0;
  uint64_t credited_ = 0;  // what the peer knows of out_.acked

  std::deque<Destination> expected_;  // of the next long messages; the peer knows them
  std::vector<Destination> unused_;
  uint32_t destinations_ = 0;    // all of them
  uint64_t long_bytes_ = 0;      // that a destination should have; 0: none is wanted yet
  uint64_t longs_ = 0;           // long messages that have come
  uint64_t adverts_ = 0;         // sent
  bool first_is_small_ = false;  // the peer has announced a message that does not fit into expected_.front()
  Connection connection_;        // last: its queues use the memory above
};

}  // namespace tutti::transports::verbs
