#include "control/message_format.hpp"

#include <algorithm>

namespace tutti::control {

void MessageWriter::length(size_t size, size_t limit) {
  if (size > limit) {
    throw_error(Code::InvalidArgument, "{} where a control message carries at most {} (bytes, or items)", size, limit);
  }
  number(static_cast<uint32_t>(size));
}

void MessageWriter::text(const std::string& value, size_t limit) {
  length(value.size(), limit);
  out_ += value;
}

void MessageWriter::texts(const std::vector<std::string>& values, size_t limit, size_t each) {
  length(values.size(), limit);
  for (const std::string& value : values) text(value, each);
}

void MessageWriter::item(const Address& value) {
  number(value.family);
  out_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

std::string_view MessageReader::take(size_t size) {
  if (size > in_.size()) {
    throw_error(Code::ProtocolError, "a control message ends early: {} bytes are missing", size - in_.size());
  }
  const std::string_view bytes = in_.substr(0, size);
  in_.remove_prefix(size);
  return bytes;
}

size_t MessageReader::length(size_t limit) {
  uint32_t size = 0;
  number(size);
  if (size > limit) throw_error(Code::ProtocolError, "a control message claims a length of {}, over {}", size, limit);
  return size;
}

void MessageReader::code(Code& value) {
  uint8_t raw = 0;
  number(raw);
  if (raw == 0 || raw > static_cast<uint8_t>(Code::InProgress)) {
    throw_error(Code::ProtocolError, "a control message carries the unknown error code {}", raw);
  }
  value = static_cast<Code>(raw);
}

void MessageReader::texts(std::vector<std::string>& values, size_t limit, size_t each) {
  const size_t count = length(limit);
  values.clear();
  for (size_t i = 0; i < count; ++i) text(values.emplace_back(), each);
}

void MessageReader::item(Address& value) {
  number(value.family);
  const std::string_view bytes = take(value.bytes.size());
  std::copy(bytes.begin(), bytes.end(), value.bytes.begin());
  if (!value.valid())
    throw_error(Code::ProtocolError, "a control message carries an address of family {}", value.family);
}

void MessageReader::end() const {
  if (!in_.empty()) throw_error(Code::ProtocolError, "a control message has {} bytes too many", in_.size());
}

Kind kind_of(std::string_view body) {
  if (body.empty()) throw_error(Code::ProtocolError, "an empty control message");
  return static_cast<Kind>(body[0]);
}

}  // namespace tutti::control
