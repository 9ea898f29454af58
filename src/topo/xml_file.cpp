#include "topo/xml_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.hpp"

namespace tutti::topo {
namespace {

constexpr size_t kLongestText = 200;
constexpr size_t kMaxWords = 2048;  // of a mask: 65,536 processors

}  // namespace

XmlFile::XmlFile(std::string_view text, std::string name) : name_(std::move(name)) {
  if (text.size() > kLongest) {
    throw_error(Code::InvalidArgument, "{}: {} bytes; at most {} are read", name_, text.size(), kLongest);
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ends_.push_back(i);
  }
  const auto result = document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) fail_at(line_at(static_cast<size_t>(std::max<ptrdiff_t>(result.offset, 0))), result.description());
  if (!root()) fail_at(1, "no XML element");
  bound();
}

size_t XmlFile::line_at(size_t offset) const {
  return static_cast<size_t>(std::lower_bound(ends_.begin(), ends_.end(), offset) - ends_.begin()) + 1;
}

size_t XmlFile::line(pugi::xml_node node) const {
  const ptrdiff_t offset = node.offset_debug();
  return offset < 0 ? 1 : line_at(static_cast<size_t>(offset));
}

void XmlFile::fail_at(size_t line, const std::string& text) const {
  throw_error(Code::InvalidArgument, "{}:{}: {}", name_, line, text);
}

void XmlFile::bound() const {
  int depth = 1;
  size_t elements = 0;
  for (pugi::xml_node node = root(); node;) {
    if (++elements > kMaxElements) fail(node, "more than {} elements", kMaxElements);
    if (node.first_child()) {
      node = node.first_child();
      if (++depth > kDeepest) fail(node.parent(), "elements are nested deeper than {}", kDeepest);
      continue;
    }
    while (node && node != root() && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    if (!node || node == root()) return;
    node = node.next_sibling();
  }
}

std::string XmlFile::text(pugi::xml_node node, const char* attribute) const {
  return std::string(node.attribute(attribute).value()).substr(0, kLongestText);
}

int64_t XmlFile::number(pugi::xml_node node, const char* attribute, int64_t otherwise, int64_t low,
                        int64_t high) const {
  const std::string_view value = node.attribute(attribute).value();
  if (value.empty()) return otherwise;
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || number < low || number > high) {
    fail(node, "{}=\"{}\" is not a whole number from {} to {}", attribute, text(node, attribute), low, high);
  }
  return number;
}

double XmlFile::real(pugi::xml_node node, const char* attribute, double otherwise) const {
  const std::string_view value = node.attribute(attribute).value();
  if (value.empty()) return otherwise;
  double number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || !std::isfinite(number) || number < 0) {
    fail(node, "{}=\"{}\" is not a number", attribute, text(node, attribute));
  }
  return number;
}

std::vector<int> parse_mask(std::string_view text) {
  std::vector<uint32_t> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.starts_with("0x")) word.remove_prefix(2);
    uint32_t bits = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    const bool whole =
        word.empty() || (error == std::errc() && rest == word.data() + word.size());  // hwloc: "0x1,,0x0"
    if (!whole || words.size() >= kMaxWords) {
      throw_error(Code::InvalidArgument, "'{}' is not a mask of processors", text.substr(0, 100));
    }
    words.push_back(bits);
  }
  std::vector<int> set;
  for (size_t i = words.size(); i-- > 0;) {
    for (int bit = 0; bit < 32; ++bit) {
      if ((words[i] >> bit & 1) != 0) set.push_back(static_cast<int>(words.size() - 1 - i) * 32 + bit);
    }
  }
  return set;
}

}  // namespace tutti::topo
