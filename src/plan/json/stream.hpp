// Reads JSON in one pass, keeps only the requested values, and knows each value's position for error texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"

namespace tutti::plan::json_text {

using Value = nlohmann::json;

inline constexpr size_t kMaxHeld = size_t{1} << 20;  ///< values kept at one time
inline constexpr size_t kMaxDepth = 10;              ///< of nesting
inline constexpr size_t kMaxWord = 256;              ///< bytes of a text or a key

class Stream;

/// Throws Error(InvalidArgument) about the value at `pointer` (a JSON pointer; empty: the whole).
[[noreturn]] void refuse(const std::string& pointer, const std::string& what);

/// A value and its position. It must not outlive the value that contains it.
class Node {
 public:
  Node(const Value& value, const Stream& offered_by) : value_(value), stream_(&offered_by) {}

  /// Throws Error(InvalidArgument) with the position and the fault.
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> text, Args&&... args) const {
    refuse(pointer(), fmt::format(text, std::forward<Args>(args)...));
  }

  // Each throws if the value has another type.
  uint32_t number(uint32_t low = 0, uint32_t high = 0xffffffff) const;
  bool truth() const;
  const std::string& text() const;
  /// The index of the value in these words.
  size_t word(std::span<const char* const> words) const;
  bool is_list() const { return value_.is_array(); }
  /// The length of the list.
  size_t list() const;
  /// Requires a list of `length` entries; `what` describes it, as in "two numbers".
  void list_of(size_t length, const char* what) const;
  Node operator[](size_t index) const { return {value_[index], this, {}, index}; }
  /// Requires an object with no other keys than these.
  void object(std::initializer_list<std::string_view> keys) const;
  Node at(const char* key) const;
  std::optional<Node> find(const char* key) const;

 private:
  Node(const Value& value, const Node* parent, std::string_view key, size_t index)
      : value_(value), parent_(parent), key_(key), index_(index) {}
  std::string pointer() const;
  std::string seen() const;

  const Value& value_;
  const Stream* stream_ = nullptr;  // the first node's
  const Node* parent_ = nullptr;
  std::string_view key_;
  size_t index_ = 0;
};

/// Passes every complete value to `take`, and keeps those that are not taken as parts of the value that contains them.
class Stream : private nlohmann::json_sax<Value> {
 public:
  /// Throws Error(InvalidArgument) for invalid JSON (with line and column), and beyond the bounds above.
  void read(std::string_view bytes);
  /// The position of the current or next value as a JSON pointer: "/plans/2/lanes".
  std::string pointer() const;

 protected:
  Stream() = default;
  /// True: the value has been handled and is dropped.
  virtual bool take(const Node& value) = 0;

  /// The nesting level of the current value; 0 is the document.
  size_t depth() const { return open_.size(); }
  /// Is the value below `level` that of this key, or an entry of a list?
  bool by_key(size_t level, std::string_view key) const { return open_[level].key == key; }
  bool by_index(size_t level) const { return open_[level].value.is_array(); }
  size_t index(size_t level) const { return open_[level].index; }

 private:
  struct Open {  // a list or object under way
    Value value;
    std::string key;
    size_t index = 0;
    size_t held = 0;  // before it
  };
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> text, Args&&... args) const {
    refuse(pointer(), fmt::format(text, std::forward<Args>(args)...));
  }
  bool put(Value value, size_t held_without);
  bool open(Value::value_t type);
  bool close();

  bool null() override { return put(nullptr, held_); }
  bool boolean(bool value) override { return put(value, held_); }
  bool number_integer(number_integer_t value) override { return put(value, held_); }
  bool number_unsigned(number_unsigned_t value) override { return put(value, held_); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override { return put(value, held_); }
  bool string(string_t& value) override;
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(std::size_t /*size*/) override { return open(Value::value_t::object); }
  bool key(string_t& value) override;
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(Value::value_t::array); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t at, const std::string& last, const nlohmann::detail::exception& error) override;

  std::vector<Open> open_;
  size_t held_ = 0;
};

}  // namespace tutti::plan::json_text
