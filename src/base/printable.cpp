#include "base/printable.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti {
namespace {

/// A character at the start of a text.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

/// Empty if the text does not begin with a character in UTF-8 (RFC 3629).
std::optional<Character> first_of(std::string_view text) {
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // that need so many bytes
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return Character{lead, 1};
  const size_t bytes = lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xe ? 3 : lead >> 3 == 0x1e ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 0x2) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return std::nullopt;
  return Character{code, bytes};
}

bool controls(uint32_t code) {
  const bool terminal = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool order =
      code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return terminal || order || code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const auto first = first_of(text);
    const size_t bytes = first ? first->bytes : 1;
    if (!first || controls(first->code)) {
      clean += text[0] == '\n' || text[0] == '\t' ? ' ' : '?';
    } else {
      clean += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return clean;
}

}  // namespace tutti
