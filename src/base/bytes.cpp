#include "base/bytes.hpp"

#include <charconv>

namespace tutti {
namespace {

constexpr std::string_view kUnits = "KMGT";

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{}) return std::nullopt;

  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) unit += upper(*c);
  if (unit.empty() || unit == "B") return Bytes{number};

  const size_t power = kUnits.find(unit.front());
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "IB")) return std::nullopt;
  const unsigned shift = 10 * static_cast<unsigned>(power + 1);
  if (number > UINT64_MAX >> shift) return std::nullopt;
  return Bytes{number << shift};
}

std::string to_text(Bytes bytes) {
  uint64_t number = bytes.value;
  size_t power = 0;
  while (number != 0 && number % 1024 == 0 && power < kUnits.size()) {
    number /= 1024;
    ++power;
  }
  return std::to_string(number) + (power == 0 ? "" : std::string(1, kUnits[power - 1]));
}

}  // namespace tutti
