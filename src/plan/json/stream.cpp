#include "plan/json/stream.hpp"

#include <algorithm>
#include <utility>

namespace tutti::plan::json_text {
namespace {

constexpr size_t kQuoted = 40;  // bytes of foreign text quoted in an error

/// Foreign text, shortened and escaped for an error.
std::string printable(std::string_view text, size_t most) {
  std::string safe;
  for (const char c : text.substr(0, most)) safe += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > most ? safe + "…" : safe;
}

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", printable(text, kQuoted)); }

/// Escapes a key for a JSON pointer.
std::string escaped(std::string_view key) {
  std::string name;
  for (const char c : printable(key, kQuoted)) {
    if (c == '~' || c == '/') {
      name += c == '~' ? "~0" : "~1";
    } else {
      name += c;
    }
  }
  return name;
}

}  // namespace

void refuse(const std::string& pointer, const std::string& what) {
  throw_error(Code::InvalidArgument, "{}: {}", pointer.empty() ? "the whole text" : pointer, what);
}

std::string Node::pointer() const {
  if (parent_ == nullptr) return stream_->pointer();
  return fmt::format("{}/{}", parent_->pointer(), key_.empty() ? fmt::format("{}", index_) : escaped(key_));
}

std::string Node::seen() const {
  if (value_.is_string()) return in_quotes(value_.get_ref<const std::string&>());
  return value_.is_structured() ? (is_list() ? "a list" : "an object") : value_.dump();
}

uint32_t Node::number(uint32_t low, uint32_t high) const {
  if (value_.is_number_unsigned()) {
    const auto number = value_.get<uint64_t>();
    if (number >= low && number <= high) return static_cast<uint32_t>(number);
  }
  wrong("{} stands where a whole number from {} to {} belongs", seen(), low, high);
}

bool Node::truth() const {
  if (!value_.is_boolean()) wrong("{} stands where true or false belongs", seen());
  return value_.get<bool>();
}

const std::string& Node::text() const {
  if (!value_.is_string()) wrong("{} stands where a text belongs", seen());
  return value_.get_ref<const std::string&>();
}

size_t Node::word(std::span<const char* const> words) const {
  const auto found = value_.is_string() ? std::find(words.begin(), words.end(), text()) : words.end();
  if (found == words.end()) wrong("{} stands where one of these belongs: {}", seen(), fmt::join(words, ", "));
  return static_cast<size_t>(found - words.begin());
}

size_t Node::list() const {
  if (!is_list()) wrong("{} stands where a list belongs", seen());
  return value_.size();
}

void Node::list_of(size_t length, const char* what) const {
  if (list() != length) wrong("a list of {} stands where {} belong", value_.size(), what);
}

void Node::object(std::initializer_list<std::string_view> keys) const {
  if (!value_.is_object()) wrong("{} stands where an object belongs", seen());
  for (const auto& [key, value] : value_.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    wrong("there is a key {}, which is not known here; known are {}", in_quotes(key), fmt::join(keys, ", "));
  }
}

Node Node::at(const char* key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) wrong("the key \"{}\" is missing", key);
  return {*found, this, key, 0};
}

std::optional<Node> Node::find(const char* key) const {
  const auto found = value_.find(key);
  return found == value_.end() ? std::nullopt : std::optional<Node>(Node(*found, this, key, 0));
}

void Stream::read(std::string_view bytes) {
  Value::sax_parse(bytes.begin(), bytes.end(), static_cast<nlohmann::json_sax<Value>*>(this));
}

std::string Stream::pointer() const {
  std::string pointer;
  for (const Open& level : open_) {
    pointer += '/';
    pointer += level.value.is_array() ? fmt::format("{}", level.index) : escaped(level.key);
  }
  return pointer;
}

bool Stream::put(Value value, size_t held_without) {
  if (take(Node(value, *this))) {
    held_ = held_without;
    if (!open_.empty()) ++open_.back().index;
    return true;
  }
  if (++held_ > kMaxHeld) wrong("over {} values in one step, list or object", kMaxHeld);
  if (open_.empty()) return true;
  Open& in = open_.back();
  if (in.value.is_array()) {
    in.value.push_back(std::move(value));
    ++in.index;
  } else {
    in.value[in.key] = std::move(value);
  }
  return true;
}

bool Stream::open(Value::value_t type) {
  if (open_.size() == kMaxDepth) wrong("lists and objects are nested more than {} deep", kMaxDepth);
  open_.push_back({Value(type), {}, 0, held_});
  return true;
}

bool Stream::close() {
  Open done = std::move(open_.back());
  open_.pop_back();
  return put(std::move(done.value), done.held);
}

bool Stream::string(string_t& value) {
  if (value.size() > kMaxWord) wrong("a text of {} bytes; {} is the most", value.size(), kMaxWord);
  return put(std::move(value), held_);
}

bool Stream::key(string_t& value) {
  Open& in = open_.back();
  if (value.size() > kMaxWord) wrong("a key of {} bytes; {} is the most", value.size(), kMaxWord);
  if (in.value.contains(value)) wrong("the key {} stands there twice", in_quotes(value));
  in.key = std::move(value);
  return true;
}

bool Stream::parse_error(std::size_t /*at*/, const std::string& /*last*/, const nlohmann::detail::exception& error) {
  constexpr size_t kShown = 200;
  std::string_view what = error.what();
  what.remove_prefix(std::min(what.find("] ") + 2, what.size()));  // removes the library's exception number
  throw_error(Code::InvalidArgument, "this is no JSON: {}", printable(what, kShown));
}

}  // namespace tutti::plan::json_text
