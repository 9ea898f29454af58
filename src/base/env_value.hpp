// Parses, prints and describes the value of an environment variable, for each type that a row of env_table.def may
// have.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.hpp"

namespace tutti::env_value {

/// The accepted values, beyond the type.
struct Rule {
  double low = -HUGE_VAL, high = HUGE_VAL;
  const char* words = "";  // "a|b|c"; empty: any
};

constexpr Rule anything() { return {}; }
constexpr Rule between(double low, double high) { return {low, high, ""}; }
constexpr Rule one_of(const char* words) { return {-HUGE_VAL, HUGE_VAL, words}; }

inline std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> list;
  while (!words.empty()) {
    const size_t bar = std::min(words.find('|'), words.size());
    list.push_back(words.substr(0, bar));
    words.remove_prefix(std::min(bar + 1, words.size()));
  }
  return list;
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

inline std::optional<bool> parse_bool(std::string_view text) {
  for (const char* word : {"1", "on", "true", "yes"}) {
    if (text == word) return true;
  }
  for (const char* word : {"0", "off", "false", "no"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

/// The value; empty if the text is invalid or the rule rejects it.
template <class T>
std::optional<T> parse(const std::string& text, const Rule& rule) {
  if constexpr (IsOptional<T>::value) {
    if (auto inner = parse<typename T::value_type>(text, rule)) return T(*inner);
    return std::nullopt;
  } else if constexpr (std::is_same_v<T, bool>) {
    return parse_bool(text);
  } else if constexpr (kIsNumber<T>) {
    T number{};
    const char* const last = text.data() + text.size();
    const auto [end, failure] = std::from_chars(text.data(), last, number);
    const auto wide = static_cast<double>(number);
    // Written so that NaN is rejected.
    if (failure == std::errc{} && end == last && wide >= rule.low && wide <= rule.high && std::isfinite(wide)) {
      return number;
    }
    return std::nullopt;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    const auto bytes = parse_bytes(text);
    const auto wide = bytes ? static_cast<double>(bytes->value) : 0;
    return bytes && wide >= rule.low && wide <= rule.high ? bytes : std::nullopt;
  } else {
    const auto words = split(rule.words);
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end() && !words.empty()) return std::nullopt;
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(found - words.begin());
    } else {
      return text;
    }
  }
}

/// As text that `parse` reads; "unset" if empty.
template <class T>
std::string show(const T& value, const Rule& rule) {
  if constexpr (IsOptional<T>::value) {
    return value ? show(*value, rule) : "unset";
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "on" : "off";
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return to_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(split(rule.words).at(static_cast<size_t>(value)));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? "unset" : value;
  } else {
    return fmt::format("{}", value);
  }
}

/// "switch", "integer", "number", "bytes", "word" or "text".
template <class T>
std::string type_word() {
  if constexpr (IsOptional<T>::value) {
    return type_word<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "switch";
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return "bytes";
  } else if constexpr (std::is_enum_v<T>) {
    return "word";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else {
    return std::is_integral_v<T> ? "integer" : "number";
  }
}

/// What `parse` accepts, as text.
template <class T>
std::string accepted(const Rule& rule) {
  const std::string type = type_word<T>();
  if (type == "switch") return "on, off, 1, 0, true, false, yes, no";
  if (*rule.words != '\0') return fmt::format("{}", fmt::join(split(rule.words), ", "));
  const bool bounded = std::isfinite(rule.low) && std::isfinite(rule.high);
  if (type == "bytes") {
    std::string example = "a number of bytes such as 4096, 64K or 8M";
    if (!bounded) return example;
    return fmt::format("{}, from {} to {}", example, to_text(Bytes{static_cast<uint64_t>(rule.low)}),
                       to_text(Bytes{static_cast<uint64_t>(rule.high)}));
  }
  if (type == "text") return "any text";
  const std::string article = type == "integer" ? "an integer" : "a number";
  return bounded ? fmt::format("{} from {:.15g} to {:.15g}", article, rule.low, rule.high) : article;
}

}  // namespace tutti::env_value
