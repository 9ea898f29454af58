// Frames of the control plane's messages: the length (4 bytes, little-endian), the kind (1 byte), then the fields
// (base/fields.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.hpp"

namespace tutti::control {

inline constexpr size_t kFrameLengthBytes = 4;

/// Writes the length of a frame of `size` bytes, which begins with `frame`.
inline void set_frame_length(std::string& frame, size_t size) {
  for (size_t i = 0; i < kFrameLengthBytes; ++i) frame[i] = static_cast<char>((size - kFrameLengthBytes) >> (8 * i));
}

/// The whole frame. Throws Error(InvalidArgument) when a text of it is over its limit.
template <class M>
std::string pack(const M& message) {
  std::string frame(kFrameLengthBytes, '\0');
  frame += static_cast<char>(M::kKind);
  FieldWriter writer(frame);
  M::fields(message, writer);
  set_frame_length(frame, frame.size());
  return frame;
}

/// The frame without its length.
template <class M>
std::string pack_body(const M& message) {
  return pack(message).substr(kFrameLengthBytes);
}

enum class Kind : uint8_t;  // control/messages.hpp

/// The kind of a frame's body (the frame without its length). Throws Error(ProtocolError) for an empty one.
Kind kind_of(std::string_view body);

/// Reads the body of a frame as an M. Throws Error(ProtocolError).
template <class M>
M unpack(std::string_view body) {
  if (kind_of(body) != M::kKind) {
    throw_error(Code::ProtocolError, "a control message of kind {} where kind {} belongs", static_cast<int>(body[0]),
                static_cast<int>(M::kKind));
  }
  M message;
  FieldReader reader(body.substr(1));
  M::fields(message, reader);
  reader.end();
  return message;
}

}  // namespace tutti::control
