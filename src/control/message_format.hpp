// The wire format of the control plane's messages.
//
// A message is sent as a frame: its length (4 bytes, little-endian), its kind (1 byte), then its fields in the order in
// which its function `fields` names them. Numbers are little-endian; a text or list follows its length (4 bytes). One
// `fields` both writes and reads a message, so the two cannot disagree. The reader checks every length against its
// limit and against the bytes that are left, and that no bytes remain; else it throws Error(ProtocolError).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/rank.hpp"
#include "tutti/error.hpp"

namespace tutti::control {

class MessageWriter {
 public:
  explicit MessageWriter(std::string& out) : out_(out) {}
  template <class T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }
  void code(Code value) { number(static_cast<uint8_t>(value)); }
  void text(const std::string& value, size_t limit);
  void words(const std::string& value, size_t limit) { text(value, limit); }
  void texts(const std::vector<std::string>& values, size_t limit, size_t each);
  template <class T>
  void list(const std::vector<T>& values, size_t limit) {
    length(values.size(), limit);
    for (const T& value : values) item(value);
  }
  void numbers(const std::vector<Rank>& values, size_t limit) {
    length(values.size(), limit);
    for (const Rank value : values) number(value);
  }
  template <class T>
  void numbers(const std::vector<T>& values, size_t limit) {
    length(values.size(), limit);
    for (const T value : values) number(value);
  }
  template <class T>
  void item(const T& value) {
    T::fields(value, *this);
  }
  void item(const Address& value);

 private:
  void length(size_t size, size_t limit);
  std::string& out_;
};

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
  MessageWriter writer(frame);
  M::fields(message, writer);
  set_frame_length(frame, frame.size());
  return frame;
}

/// The frame without its length.
template <class M>
std::string pack_body(const M& message) {
  return pack(message).substr(kFrameLengthBytes);
}

class MessageReader {
 public:
  explicit MessageReader(std::string_view in) : in_(in) {}
  template <class T>
  void number(T& value) {
    const std::string_view bytes = take(sizeof(T));
    uint64_t wide = 0;
    for (size_t i = 0; i < sizeof(T); ++i) wide |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    value = static_cast<T>(wide);
  }
  void code(Code& value);
  void text(std::string& value, size_t limit) { value = take(length(limit)); }
  /// Text for people: it goes to logs and terminals.
  void words(std::string& value, size_t limit) { value = printable(take(length(limit))); }
  void texts(std::vector<std::string>& values, size_t limit, size_t each);
  template <class T>
  void list(std::vector<T>& values, size_t limit) {
    const size_t count = length(limit);
    values.clear();  // grown as items are really there: a large count alone reserves nothing
    for (size_t i = 0; i < count; ++i) item(values.emplace_back());
  }
  void numbers(std::vector<Rank>& values, size_t limit) {
    const size_t count = length(limit);
    values.clear();
    for (size_t i = 0; i < count; ++i) number(values.emplace_back());
  }
  template <class T>
  void numbers(std::vector<T>& values, size_t limit) {
    const size_t count = length(limit);
    values.clear();
    for (size_t i = 0; i < count; ++i) number(values.emplace_back());
  }
  template <class T>
  void item(T& value) {
    T::fields(value, *this);
  }
  void item(Address& value);
  void end() const;

 private:
  std::string_view take(size_t size);
  size_t length(size_t limit);
  std::string_view in_;
};

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
  MessageReader reader(body.substr(1));
  M::fields(message, reader);
  reader.end();
  return message;
}

}  // namespace tutti::control
