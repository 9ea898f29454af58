// What the two ends of a link exchange. Little-endian, as all hosts that Tutti runs on.
//
// On the link's stream: a Hello in each direction, followed by the address of the sender's UCX worker. Over UCX, as
// headers of active messages: Message to the reader, with a payload; Credit to the writer. UCX delivers what anybody
// sends to a worker's address, so each header has the token that its receiver drew for this link and told the peer over
// the stream, which is authenticated. What does not have it is not looked at.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "link/link.hpp"

namespace tutti::transports::ucx {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kEager = 8192;                     ///< bytes; longer payloads travel by rendezvous
inline constexpr uint64_t kMaxMessage = uint64_t{64} << 20;  ///< bytes of payload that a message may have
inline constexpr uint32_t kMaxAddress = 16384;               ///< bytes of a worker's address
inline constexpr uint32_t kSlots = link::kCapacity;          ///< messages that are sent and not consumed

/// Numbers of active messages.
inline constexpr unsigned kMessageId = 1;
inline constexpr unsigned kCreditId = 2;

/// To the reader. The payload follows.
struct Message {
  uint64_t token;
  uint64_t number;
  uint64_t tag;  ///< 48 bits
  uint64_t length;
  uint64_t end;  ///< which of the receiver's ends
};

/// To the writer.
struct Credit {
  uint64_t token;
  uint64_t consumed;  ///< messages, so far
  uint64_t end;
};

/// Copies a header out of `size` bytes. False if they are not one.
template <class Header>
bool read_header(const void* from, size_t size, Header& header) {
  if (size != sizeof header) return false;
  std::memcpy(&header, from, sizeof header);
  return true;
}

/// What is wrong with a message of which UCX says that it has `bytes` bytes, and announces them if `announced`; null if
/// it is valid. Of the link, `consumed` messages are consumed.
inline const char* check(const Message& message, uint64_t bytes, bool announced, uint64_t consumed) {
  if (message.number - consumed >= kSlots) return "there was no room for it";
  if (message.tag > link::kTagMask) return "its fingerprint has more than 48 bits";
  if (message.length > kMaxMessage) return "it is longer than any message";
  if (message.length != bytes) return "its header gives another length";
  if (announced != (message.length > kEager)) return "a message of its length travels otherwise";
  return nullptr;
}

struct Hello {
  static constexpr uint64_t kMagic = 0x3178637569747475;  // "uttiucx1"
  uint64_t magic = kMagic;
  uint64_t token = 0;          ///< what the receiver of this writes into its headers
  uint32_t end = 0;            ///< likewise
  uint32_t address_bytes = 0;  ///< of the worker's address, which follows
};
static_assert(sizeof(Hello) == 24);

inline const char* check(const Hello& hello) {
  if (hello.magic != Hello::kMagic) return "it does not begin like one; the peer may run another version";
  if (hello.address_bytes == 0 || hello.address_bytes > kMaxAddress) return "its address has an impossible length";
  return nullptr;
}

}  // namespace tutti::transports::ucx
