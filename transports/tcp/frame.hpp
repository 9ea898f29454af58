// The format of a stream: messages one after the other, each a header of 24 bytes and its payload. Little-endian.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/rank.hpp"
#include "link/link.hpp"

namespace tutti::transports::tcp {

inline constexpr uint64_t kMaxMessage = uint64_t{64} << 20;  ///< bytes of payload that a message may have
inline constexpr uint32_t kHeaderBytes = 24;

struct FrameHeader {
  uint64_t number;  ///< of the message on its link, modulo 2^48
  uint64_t tag;     ///< 48 bits
  uint64_t length;
};

inline constexpr uint64_t kMark = uint64_t{0x7475} << 48;  // "tu", above the number: tells a header from noise

namespace detail {
inline void store(unsigned char* to, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) to[byte] = static_cast<unsigned char>(value >> (8 * byte));
}
inline uint64_t load(const unsigned char* from) {
  uint64_t value = 0;
  for (int byte = 0; byte < 8; ++byte) value |= uint64_t{from[byte]} << (8 * byte);
  return value;
}
}  // namespace detail

inline void write_header(unsigned char (&to)[kHeaderBytes], const FrameHeader& header) {
  detail::store(to, kMark | (header.number & link::kTagMask));
  detail::store(to + 8, header.tag);
  detail::store(to + 16, header.length);
}

/// What is wrong with the header of message `number`, or null if it is valid.
inline const char* read_header(const unsigned char* from, uint64_t number, FrameHeader& header) {
  const uint64_t first = detail::load(from);
  header = {first & link::kTagMask, detail::load(from + 8), detail::load(from + 16)};
  if ((first & ~link::kTagMask) != kMark) return "it does not begin like a header";
  if (header.number != (number & link::kTagMask)) return "it is not the next message";
  if (header.tag > link::kTagMask) return "its fingerprint has more than 48 bits";
  if (header.length > kMaxMessage) return "it is longer than any message";
  return nullptr;
}

}  // namespace tutti::transports::tcp
