// The writing end of a link: moves messages from a ring of this process to the peer's eager ring and destinations.
#pragma once

#include <array>
#include <memory>

#include "link/host_memory.hpp"
#include "transports/verbs/connection.hpp"
#include "transports/verbs/memory.hpp"

namespace tutti::transports::verbs {

class Sender {
 public:
  Sender(Nic& nic, Memory& memory, const Connection::Who& who);

  /// Opens the link over `stream`. Throws Error.
  void open(Fd stream, uint32_t queues, const Deadline& deadline) {
    connection_.open(std::move(stream), queues, *area_->region, deadline);
  }
  link::OutLink link() const { return {.ring = ring_->ring, .consumed = &ring_->consumed, .peer = in_.peer}; }
  Connection& stream() { return connection_; }
  const Connection& stream() const { return connection_; }

  /// Posts messages until there is none left, or something is missing. Never waits.
  Status progress(bool& moved);
  Status notice(uint32_t word);
  /// Is there a message that has not been given to the device?
  bool waiting() const;
  /// Would progress() post something?
  bool busy() const { return connection_.ready() && !blocked_ && waiting(); }
  /// Consumes all messages without sending them; nothing is sent any more.
  void stop();

 private:
  static constexpr uint32_t kBounces = 4;
  static constexpr uint64_t kBounceBytes = uint64_t{128} << 10;

  /// The long message that is under way.
  struct Long {
    bool begun = false, announced = false, refused = false;
    uint64_t done = 0;  // bytes that have been posted
    Advert to{};
    std::shared_ptr<const Region> source;  // where it lies; null: it goes through bounce buffers
  };
  /// The places in the queues at which a message is done, one for each queue that it used.
  struct Sent {
    std::array<QueueMark, kMaxQueues> places;
    uint32_t count = 0;
    std::shared_ptr<const Region> source;  // stays registered until then
  };
  struct Bounce {
    Buffer memory;
    QueueMark busy;  // until this
  };

  uint64_t next() const { return in_.next + preposted_; }  // number of the next message to post
  bool has_slot();
  Status post_next(const link::Header& header, const link::Arrival& arrival, bool& posted);
  Status post_small(const link::Header& header, const link::Arrival& arrival, bool& posted);
  Status post_long(const link::Header& header, const unsigned char* data, bool& posted);
  Status begin_long(const link::Header& header, const unsigned char* data);
  Status post_chunk(const link::Header& header, const unsigned char* data, uint32_t stripes, bool& posted);
  Status post_last(uint32_t queue, Work& work);
  Status announce(uint64_t length, bool refuses);
  Status take_advert(const Advert& advert);
  const Advert* destination_of(const link::Header& header) const;
  Status post_header(Header& header, const Piece* payload, bool inlined, bool completes);
  Bounce* free_bounce();
  void consume();
  Status check_closed();
  Status gone() const;

  Nic& nic_;
  Memory& memory_;
  std::unique_ptr<link::LinkMemory> ring_ = std::make_unique<link::LinkMemory>();
  link::InLink in_;
  uint64_t preposted_ = 0;  // messages that are posted and not consumed
  uint64_t credit_ = 0;     // messages that the reader has consumed
  bool blocked_ = false;    // something is missing, which a notice, a completion or the credit brings
  bool stopped_ = false;
  Long long_;
  std::array<Sent, link::kCapacity> sent_;
  std::array<Bounce, kBounces> bounces_;
  Buffer headers_;  // kSlots headers to send from
  uint64_t preposted_count_ = 0,
           rendezvous_count_ = 0;                 // posted messages of up to kMaxPreposted bytes, and longer ones
  std::array<Advert, kAdverts> ahead_adverts_{};  // by number of the message
  Advert buffer_{}, posted_{};                    // the last of each kind
  uint64_t adverts_read_ = 0;
  Buffer area_memory_;
  Buffer* area_ = &area_memory_;
  Connection connection_;  // last: its queues use the memory above
};

}  // namespace tutti::transports::verbs
