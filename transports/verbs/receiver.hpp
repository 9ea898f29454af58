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

class Receiver {
 public:
  Receiver(Nic& nic, Memory& memory, const Connection::Who& who);

  /// The peer's stream has come.
  void attach(Fd stream) { connection_.attach(std::move(stream), *eager_ring_.region); }
  link::InLink link() const {
    return {.ring = ring_->ring,
            .consumed = &ring_->consumed,
            .peer = out_.peer,
            .addresses = true,
            .posted = posted_.get(),
            .keeps_posted = true};
  }
  Connection& stream() { return connection_; }
  const Connection& stream() const { return connection_; }
  uint64_t received() const { return out_.next; }

  Status notice(uint32_t word);
  /// Publishes what has come, and tells the peer what it needs to know. Never waits.
  Status progress(bool& moved);
  void stop() { connection_.stop(); }

 private:
  /// Where a payload of more than kEager bytes goes: a buffer of this end, or memory that the executor has posted.
  struct Destination {
    std::unique_ptr<Buffer> own;
    std::shared_ptr<const Region> posted;  // that `at` lies in
    unsigned char* at = nullptr;           // null: there is none
    uint64_t bytes = 0;
    uint32_t key = 0;

    static Destination of(std::unique_ptr<Buffer> buffer);
    static Destination of(std::shared_ptr<const Region> region, const link::Posted& posted);
    explicit operator bool() const { return at != nullptr; }
    Advert advert(uint64_t number, AdvertKind kind) const {
      return {number, reinterpret_cast<uint64_t>(at), bytes, 0, key, kind};
    }
  };

  /// What the peer knows of the next message of more than kMaxPreposted bytes.
  struct Rendezvous {
    bool announced = false;  // the peer asks
    bool refused = false;    // the posted destination does not serve
    uint64_t bytes = 0;      // that a buffer must have
    Destination buffer;      // advertised, if it is not null
  };
  /// What the executor has posted for the next message.
  struct PostedNext {
    uint64_t number = 0;                   // of the message plus one, once it is known
    link::Posted posted;                   // advertised, if posted.to is not 0
    std::shared_ptr<const Region> region;  // of posted.to
  };

  bool announced(const Notice& notice);
  Status take_header();
  Status take_posted();
  Status take_preposted(const Header& header);
  Status take_rendezvous(const Header& header);
  Status wrong(const char* what, const Header& header) const;
  bool is_complete(const Header& header) const;
  Status publish(bool& moved);
  void reclaim();
  Status send_credit();
  Status send_preposted();
  Status send_rendezvous();
  Destination take_posted_any(uint64_t bytes);
  void release(Destination destination);
  bool find_posted();
  Status advertise(const Advert& advert);
  Destination make_destination(uint64_t bytes);

  Nic& nic_;
  Memory& memory_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  std::unique_ptr<link::Posted[]> posted_ = std::make_unique<link::Posted[]>(link::kPostedAhead);
  link::OutLink out_;
  Buffer eager_ring_;

  uint64_t arrived_ = 0;                    // messages of which the peer has told
  std::array<Header, kSlots> headers_{};    // copies, checked
  std::array<uint8_t, kSlots> stripes_{};   // that have come, by message
  std::array<Destination, kSlots> in_use_;  // of the message in each slot of the ring; none: it is in the eager ring
  uint64_t reclaimed_ = 0;
  uint64_t credited_ = 0;  // what the peer knows of out_.acked

  std::deque<Destination> preposted_;   // of the next messages of up to kMaxPreposted bytes; the peer knows them
  std::vector<Destination> unused_;     // own ones
  std::deque<Destination> posted_any_;  // posted for any message, and not used yet
  uint64_t posted_any_next_ = 0;        // the number of the next that may be posted
  bool wants_preposted_ = false;
  Rendezvous rendezvous_;
  PostedNext posted_next_;
  uint32_t destinations_ = 0;      // all own ones
  uint64_t preposted_count_ = 0;   // messages that have come in a buffer advertised ahead
  uint64_t rendezvous_count_ = 0;  // longer ones
  uint64_t adverts_ = 0;           // sent
  Connection connection_;          // last: its queues use the memory above
};

}  // namespace tutti::transports::verbs
