#include "base/fields.hpp"

#include <algorithm>

namespace tutti {

void FieldWriter::length(size_t size, size_t limit) {
  if (size > limit) {
    throw_error(Code::InvalidArgument, "{} where a control message carries at most {} (bytes, or items)", size, limit);
  }
  number(static_cast<uint32_t>(size));
}

void FieldWriter::text(const std::string& value, size_t limit) {
  length(value.size(), limit);
  out_ += value;
}

void FieldWriter::texts(const std::vector<std::string>& values, size_t limit, size_t each) {
  length(values.size(), limit);
  for (const std::string& value : values) text(value, each);
}

void FieldWriter::item(const Address& value) {
  number(value.family);
  out_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

std::string_view FieldReader::take(size_t size) {
  if (size > in_.size()) {
    throw_error(Code::ProtocolError, "a control message ends early: {} bytes are missing", size - in_.size());
  }
  const std::string_view bytes = in_.substr(0, size);
  in_.remove_prefix(size);
  return bytes;
}

size_t FieldReader::length(size_t limit) {
  uint32_t size = 0;
  number(size);
  if (size > limit) throw_error(Code::ProtocolError, "a control message claims a length of {}, over {}", size, limit);
  return size;
}

void FieldReader::code(Code& value) {
  uint8_t raw = 0;
  number(raw);
  if (raw == 0 || raw >= kCodes) {
    throw_error(Code::ProtocolError, "a control message carries the unknown error code {}", raw);
  }
  value = static_cast<Code>(raw);
}

void FieldReader::unknown_choice(int64_t raw) {
  throw_error(Code::ProtocolError, "a control message carries {} where it names one of a few choices", raw);
}

void FieldReader::texts(std::vector<std::string>& values, size_t limit, size_t each) {
  const size_t count = length(limit);
  values.clear();
  for (size_t i = 0; i < count; ++i) text(values.emplace_back(), each);
}

void FieldReader::item(Address& value) {
  number(value.family);
  const std::string_view bytes = take(value.bytes.size());
  std::copy(bytes.begin(), bytes.end(), value.bytes.begin());
  if (!value.valid())
    throw_error(Code::ProtocolError, "a control message carries an address of family {}", value.family);
}

void FieldReader::end() const {
  if (!in_.empty()) throw_error(Code::ProtocolError, "a control message has {} bytes too many", in_.size());
}

}  // namespace tutti
