// Messages as bytes: what processes tell each other.
//
// A message is its fields, in the order in which its function `fields` names them. Numbers are little-endian; a text or
// list follows its length (4 bytes). One `fields` both writes and reads a message, so the two cannot disagree. The
// reader checks every length against its limit and against the bytes that are left, and that no bytes remain; else it
// throws Error(ProtocolError).
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/address.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/rank.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr size_t kMaxItem = 1 << 20;  ///< bytes of a text in a map

class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}
  template <class... T>
  void number(T... values) {
    (put(values), ...);
  }
  void real(double value) { number(std::bit_cast<uint64_t>(value)); }
  void flag(bool value) { number(static_cast<uint8_t>(value)); }
  void code(Code value) { number(static_cast<uint8_t>(value)); }
  /// One of the enumerators 0 to `last`.
  template <class E>
  void choice(E value, E /*last*/) {
    number(static_cast<std::underlying_type_t<E>>(value));
  }
  void text(const std::string& value, size_t limit);
  void words(const std::string& value, size_t limit) { text(value, limit); }
  void texts(const std::vector<std::string>& values, size_t limit, size_t each);
  template <class T>
  void list(const std::vector<T>& values, size_t limit) {
    length(values.size(), limit);
    for (const T& value : values) item(value);
  }
  template <class T>
  void numbers(const std::vector<T>& values, size_t limit) {
    length(values.size(), limit);
    for (const T value : values) number(value);
  }
  /// By name, each name at most `each` bytes.
  template <class T>
  void map(const std::map<std::string, T>& values, size_t limit, size_t each) {
    length(values.size(), limit);
    for (const auto& [name, value] : values) text(name, each), item(value);
  }
  template <class T>
  void item(const T& value) {
    T::fields(value, *this);
  }
  void item(const std::string& value) { text(value, kMaxItem); }
  void item(const Address& value);

 private:
  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T>, "fields of other types have functions of their own");
    for (size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }
  void length(size_t size, size_t limit);
  std::string& out_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view in) : in_(in) {}
  template <class... T>
  void number(T&... values) {
    (get(values), ...);
  }
  void real(double& value) {
    uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
  }
  void flag(bool& value) {
    uint8_t raw = 0;
    number(raw);
    value = raw != 0;
  }
  void code(Code& value);
  /// Throws Error(ProtocolError) for a value beyond `last`.
  template <class E>
  void choice(E& value, E last) {
    std::underlying_type_t<E> raw = 0;
    number(raw);
    if (raw < 0 || raw > static_cast<std::underlying_type_t<E>>(last)) unknown_choice(static_cast<int64_t>(raw));
    value = static_cast<E>(raw);
  }
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
  template <class T>
  void numbers(std::vector<T>& values, size_t limit) {
    const size_t count = length(limit);
    values.clear();
    for (size_t i = 0; i < count; ++i) number(values.emplace_back());
  }
  template <class T>
  void map(std::map<std::string, T>& values, size_t limit, size_t each) {
    values.clear();
    for (size_t left = length(limit); left > 0; --left) {
      std::string name;
      text(name, each);
      item(values[name]);
    }
  }
  template <class T>
  void item(T& value) {
    T::fields(value, *this);
  }
  void item(std::string& value) { text(value, kMaxItem); }
  void item(Address& value);
  void end() const;

 private:
  template <class T>
  void get(T& value) {
    static_assert(std::is_integral_v<T>, "fields of other types have functions of their own");
    const std::string_view bytes = take(sizeof(T));
    uint64_t wide = 0;
    for (size_t i = 0; i < sizeof(T); ++i) wide |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    value = static_cast<T>(wide);
  }
  std::string_view take(size_t size);
  size_t length(size_t limit);
  [[noreturn]] static void unknown_choice(int64_t raw);
  std::string_view in_;
};

/// The fields alone. Throws Error(InvalidArgument) when a text is over its limit.
template <class M>
std::string pack_fields(const M& message) {
  std::string bytes;
  FieldWriter writer(bytes);
  writer.item(message);
  return bytes;
}

/// Throws Error(ProtocolError).
template <class M>
M unpack_fields(std::string_view bytes) {
  M message;
  FieldReader reader(bytes);
  reader.item(message);
  reader.end();
  return message;
}

}  // namespace tutti
