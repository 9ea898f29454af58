// The format of a stream: parts of messages one after another, each a header of 24 bytes and its bytes. Little-endian.
//
// A link has one or more streams. A short message travels on the first one, whole. A long one is cut into stripes, one
// for each of the first `parts` streams; each has a header of its own, so they may arrive in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/rank.hpp"
#include "link/link.hpp"

namespace tutti::transports::tcp {

inline constexpr uint64_t kMaxMessage = uint64_t{64} << 20;  ///< bytes of payload that a message may have
inline constexpr uint32_t kHeaderBytes = 24;
inline constexpr uint32_t kMaxStreams = 16;            ///< of a link
inline constexpr uint64_t kShortestStriped = 4 << 10;  ///< bytes; shorter messages may not be striped

struct FrameHeader {
  uint64_t number = 0;  ///< of the message on its link, modulo 2^48
  uint64_t tag = 0;     ///< 48 bits
  uint64_t length = 0;  ///< of the whole message
  uint32_t part = 0;    ///< this stripe
  uint32_t parts = 1;   ///< stripes of the message
};

/// The bytes of a message that one of its stripes has.
struct Stripe {
  uint64_t begin = 0, bytes = 0;
};
inline Stripe stripe_of(uint64_t length, uint32_t part, uint32_t parts) {
  if (parts == 1) return {0, length};
  constexpr uint64_t kGrain = 128;  // bytes
  const uint64_t step = (length / parts + kGrain) / kGrain * kGrain;
  const uint64_t begin = std::min(length, part * step);
  return {begin, part + 1 == parts ? length - begin : std::min(length - begin, step)};
}

inline constexpr uint64_t kMark = uint64_t{0x7475} << 48;  // "tu", above the number: distinguishes a header from noise

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
  detail::store(to + 16, header.length | uint64_t{header.part} << 48 | uint64_t{header.parts - 1} << 56);
}

/// What is wrong with a header on stream `stream`, or null if it is valid. `number`: of the message that must begin on
/// the first stream, and the least one on others. Sets header.number to the full number.
inline const char* read_header(const unsigned char* from, uint64_t number, uint32_t stream, FrameHeader& header) {
  const uint64_t first = detail::load(from), last = detail::load(from + 16);
  header = {.number = first & link::kTagMask,
            .tag = detail::load(from + 8),
            .length = last & link::kTagMask,
            .part = static_cast<uint32_t>(last >> 48 & 0xff),
            .parts = static_cast<uint32_t>(last >> 56) + 1};
  if ((first & ~link::kTagMask) != kMark) return "it does not begin like a header";
  const uint64_t ahead = (header.number - number) & link::kTagMask;
  if (ahead > (stream == 0 ? 0 : link::kTagMask / 2)) return "it is not the next message";
  if (header.tag > link::kTagMask) return "its fingerprint has more than 48 bits";
  if (header.length > kMaxMessage) return "it is longer than any message";
  if (header.part != stream || header.parts > kMaxStreams || header.part >= header.parts) {
    return "its stripe does not belong on this stream";
  }
  if (header.parts > 1 && header.length < kShortestStriped) return "it is too short for stripes";
  header.number = number + ahead;
  return nullptr;
}

}  // namespace tutti::transports::tcp
