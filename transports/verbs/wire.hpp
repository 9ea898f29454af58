// What the two ends of a link exchange. Little-endian, as all hosts that Tutti runs on.
//
// The reader has an *eager ring* of kCapacity slots, one for each unread message: a Header, and room for a payload of
// up to kEager bytes. A longer payload is written to a destination that the reader has advertised: up to
// kMaxPreposted bytes, to a buffer that was advertised ahead; beyond, to one that is advertised for this very
// message, because it is to be where the executor wants the payload (link::Posted), if that is known in time. The
// writer has a *feedback* area: a word with the count of messages that the reader has consumed, and the reader's
// adverts. Everything is written by the peer's device, and notices (nic.hpp) say what has come. A peer's bytes are
// copied, then checked.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "link/link.hpp"
#include "transports/verbs/nic.hpp"

namespace tutti::transports::verbs {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kSlots = link::kCapacity;
inline constexpr uint64_t kEager = 8192;                      ///< bytes of payload in a slot
inline constexpr uint64_t kMaxPreposted = 64 << 10;           ///< bytes of payload in a buffer advertised ahead
inline constexpr uint64_t kMaxMessage = uint64_t{64} << 20;   ///< bytes of payload that a message may have
inline constexpr uint32_t kMaxQueues = 8;                     ///< queue pairs of a link
inline constexpr uint64_t kStripeGrain = 128;                 ///< bytes: stripes begin at multiples
inline constexpr uint64_t kStripeFrom = uint64_t{128} << 10;  ///< bytes: shorter messages are not striped

enum class Delivery : uint16_t { Inline = 1, Eager = 2, Preposted = 3, Rendezvous = 4 };

/// Begins a slot. Preposted: the payload is in the next buffer that was advertised ahead. Rendezvous: in the buffer
/// that was advertised for this message. A message at a posted destination has no header.
struct Header {
  uint64_t number;  ///< of the message, plus one
  uint64_t tag;     ///< fingerprint of the call (48 bits) << 16 | Delivery
  uint64_t length;
  unsigned char payload[link::kInlineBytes];  ///< Inline
};
static_assert(sizeof(Header) == 64);

inline constexpr uint64_t kSlotBytes = sizeof(Header) + kEager;
inline constexpr uint64_t kEagerRingBytes = kSlots * kSlotBytes;

/// What an advert is for. Preposted: a message of up to kMaxPreposted bytes, or of `bytes` if these are fewer.
/// Buffer: a longer one. Posted: one of more than kEager bytes that has exactly this number, tag and length; the
/// memory is the user's.
enum class AdvertKind : uint32_t { Preposted = 1, Buffer = 2, Posted = 3 };

/// A destination.
struct Advert {
  uint64_t
      number;  ///< of the message plus one; Preposted: among those that went to such buffers; Buffer: among longer ones
  uint64_t address;
  uint64_t bytes;
  uint64_t tag;  ///< Posted
  uint32_t key;
  AdvertKind kind;
};

inline constexpr uint32_t kAdverts = 16;   ///< more than the reader has on the way at any time
inline constexpr uint32_t kPreposted = 4;  ///< buffers that a reader advertises ahead

struct Feedback {
  alignas(64) uint64_t consumed;
  alignas(64) Advert adverts[kAdverts];
};

/// A notice: two bits of kind, and up to 30 of content. The writer gets one kind only.
enum class NoticeKind : uint32_t {
  Message = 0,   ///< to the reader: header of message `number` is complete
  Stripe = 1,    ///< to the reader: a stripe of message `number` is complete
  Announce = 2,  ///< to the reader: long message `number` has up to 2^size bytes, and the writer has no destination
  Posted = 3,    ///< to the reader: the first stripe of message `number` is complete, at the posted destination
  Advert = 0     ///< to the writer: advert `number` is complete
};
inline constexpr uint32_t kNumberMask = (1u << 24) - 1;
inline constexpr uint32_t kLargestSize = 26;    ///< of an Announce
inline constexpr uint32_t kNotThere = 1u << 5;  ///< in the size of an Announce: the posted destination does not fit
static_assert(uint64_t{1} << kLargestSize == kMaxMessage);

struct Notice {
  NoticeKind kind = NoticeKind::Message;
  uint32_t size = 0;    ///< Announce
  uint32_t number = 0;  ///< low 24 bits

  uint32_t word() const { return static_cast<uint32_t>(kind) << 30 | size << 24 | number; }
  static Notice of(uint32_t word) {
    return {static_cast<NoticeKind>(word >> 30), word >> 24 & 0x3f, word & kNumberMask};
  }
};

/// The bytes of stripe `index` of a message of `length` bytes that travels over `queues` queues.
struct Stripe {
  uint64_t begin = 0, end = 0;
};
inline uint32_t stripes_of(uint64_t length, uint32_t queues) { return length < kStripeFrom ? 1 : queues; }
inline Stripe stripe_of(uint64_t length, uint32_t stripes, uint32_t index) {
  const uint64_t each = (length / stripes + kStripeGrain - 1) / kStripeGrain * kStripeGrain;
  const auto at = [&](uint64_t i) { return i >= stripes || i * each > length ? length : i * each; };
  return {at(index), at(index + 1)};
}

/// The first message on a link's stream, in both directions: the writer's, then the reader's answer.
struct Hello {
  static constexpr uint64_t kMagic = 0x3262762d69747475;  // "utti-vb2"
  uint64_t magic = kMagic;
  uint64_t area = 0;  ///< address of the eager ring, or of the feedback
  uint64_t area_bytes = 0;
  uint32_t area_key = 0;
  uint32_t queues = 0;
  NicAddress nic;
  uint32_t padding = 0;
  QueueAddress queue[kMaxQueues];
};
static_assert(sizeof(Hello) == 120);

/// What is wrong with a Hello whose area should have `area_bytes` bytes, or null if it is valid.
inline const char* check(const Hello& hello, uint64_t area_bytes) {
  if (hello.magic != Hello::kMagic) return "it does not begin like one; the peer may run another version";
  if (hello.area_bytes != area_bytes) return "its memory has another size; the peer may run another version";
  if (hello.queues == 0 || hello.queues > kMaxQueues) return "it has an impossible number of queue pairs";
  if (hello.nic.mtu < 256 || hello.nic.mtu > 4096) return "it has an impossible packet size";
  for (uint32_t i = 0; i < hello.queues; ++i) {
    if (hello.queue[i].number > kNumberMask || hello.queue[i].first > kNumberMask) return "a queue pair is impossible";
  }
  return nullptr;
}

}  // namespace tutti::transports::verbs
