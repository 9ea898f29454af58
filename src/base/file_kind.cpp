#include "base/file_kind.hpp"

#include "base/format.hpp"

namespace tutti {
namespace {

struct Kind {
  std::string_view format;  // its beginning
  const char* words;
};

constexpr Kind kKinds[] = {
    {"tutti-plan", "a plan (`tutti plan export`)"},
    {"tutti-topology", "a topology (`tutti topo --json`)"},
    {"tutti-profile", "a profile (`tutti tune`)"},
    {"tutti-synthesised", "a file of synthesised plans (`tutti tune --synth`)"},
    {"tutti-calibration", "a quick calibration"},
};

/// Tables that commands print, by a key that no other file has.
constexpr Kind kTables[] = {
    {"\"candidates\"", "the table of `tutti explain`"},
    {"\"of_capacities\"", "the table of `tutti plan synth`"},
    {"\"formula_seconds\"", "the table of `tutti sim`"},
    {"\"average_busbw\"", "the results of `tutti perf`"},
    {"\"rows\"", "a decision table"},
};

constexpr std::string_view kSpace = " \t\r\n";

std::string_view without_space(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// The value of the first "format"; "": there is none.
std::string_view format_of(std::string_view text) {
  constexpr std::string_view kKey = "\"format\"";
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) return {};
  text = without_space(text.substr(at + kKey.size()));
  if (!text.starts_with(':')) return {};
  text = without_space(text.substr(1));
  return text.starts_with('"') ? text.substr(1, text.find('"', 1) - 1) : std::string_view();
}

}  // namespace

std::string kind_of_file(std::string_view text) {
  text = without_space(text);
  if (text.starts_with('<')) return "XML";
  if (!text.starts_with('{')) return "";
  const std::string_view format = format_of(text);
  for (const Kind& kind : kKinds) {
    if (format.starts_with(kind.format)) return kind.words;
  }
  if (!format.empty()) return "";
  for (const Kind& table : kTables) {
    if (text.find(table.format) != std::string_view::npos) return table.words;
  }
  return "";
}

void check_kind_of_file(std::string_view text, const std::string& path, std::string_view format,
                        std::string_view wanted) {
  const std::string kind = kind_of_file(text);
  if (kind.empty() || format_of(text).starts_with(format)) return;
  throw_error(Code::InvalidArgument, "{} is {}, where {} is wanted", path, kind, wanted);
}

}  // namespace tutti
