// An XML file from outside: bounded, and every complaint names its line. Parsed by pugixml, which knows no entities of
// a file's own and reads no other file.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::topo {

class XmlFile {
 public:
  static constexpr size_t kLongest = size_t{4} << 20;  ///< bytes
  static constexpr int kDeepest = 64;                  ///< elements in each other
  static constexpr size_t kMaxElements = size_t{1} << 15;

  /// `name`: of the file, for messages. Throws Error(InvalidArgument).
  XmlFile(std::string_view text, std::string name);

  pugi::xml_node root() const { return document_.document_element(); }
  size_t line(pugi::xml_node node) const;

  /// Throws Error(InvalidArgument) "NAME:LINE: TEXT".
  template <class... Args>
  [[noreturn]] void fail(pugi::xml_node at, fmt::format_string<Args...> text, Args&&... args) const {
    fail_at(line(at), fmt::format(text, std::forward<Args>(args)...));
  }

  /// Runs a reader: its errors that name no line get the file's name.
  template <class Read>
  auto naming(const Read& read) const {
    try {
      return read();
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(name_)) throw;
      throw Error(error.code(), fmt::format("{}:1: {}", name_, error.what()));
    }
  }

  /// The attribute's text, cut if it is very long; "" if it is missing.
  std::string text(pugi::xml_node node, const char* attribute) const;
  /// A whole number within the bounds; `otherwise` if it is missing or empty. Throws as fail() does.
  int64_t number(pugi::xml_node node, const char* attribute, int64_t otherwise, int64_t low, int64_t high) const;
  /// A finite number ≥ 0; `otherwise` if it is missing or empty.
  double real(pugi::xml_node node, const char* attribute, double otherwise) const;

 private:
  [[noreturn]] void fail_at(size_t line, const std::string& text) const;
  size_t line_at(size_t offset) const;
  void bound() const;

  std::string name_;
  std::vector<size_t> ends_;  // of lines
  pugi::xml_document document_;
};

/// Hexadecimal, most significant digit first, in words of at most 8 digits with commas between
/// ("0x0000ffff,0x00000001", "ff,00000000"): the numbers of the bits that are set. Throws Error(InvalidArgument),
/// without a line.
std::vector<int> parse_mask(std::string_view text);

}  // namespace tutti::topo
