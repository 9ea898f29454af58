// Numbers of bytes as people write them: "8", "64K", "1M", "2G", by powers of 1024.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// A number of bytes. A type of its own, so that it is read and printed with K, M, G, T.
struct Bytes {
  uint64_t value = 0;
  constexpr operator uint64_t() const { return value; }  // NOLINT(google-explicit-constructor): it is a number
};

/// Reads "123", "8K", "64MiB", "2gb": digits, then an optional unit. Empty for anything else, or over 64 bits.
std::optional<Bytes> parse_bytes(std::string_view text);

/// The shortest exact form: 8, 1K, 1536, 64M.
std::string to_text(Bytes bytes);

}  // namespace tutti
