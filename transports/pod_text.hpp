// Plain structures as the bytes of a request or an answer (Wireup::ask).
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/printable.hpp"

namespace tutti::transports {

template <class T>
std::string pack(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// False if `bytes`, which a peer sent, are not as many as a T has.
template <class T>
bool unpack(const std::string& bytes, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

/// The reply of a peer that is no structure but a text, as it may be shown to people.
inline std::string printable_reply(std::string_view text) {
  constexpr size_t kMax = 300;
  return printable(text.substr(0, kMax));
}

}  // namespace tutti::transports
