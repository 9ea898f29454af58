// The table of environment variables as text: `tutti env` and docs/environment.md.
#include <fmt/format.h>

#include "base/env.hpp"

namespace tutti {
namespace {

/// A cell of a Markdown table, where an unescaped bar would begin the next cell, even in code.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? std::string("\\|") : std::string(1, c);
  return safe;
}

}  // namespace

std::string env_as_text() {
  const Env& now = env();
  std::string text;
  for (const EnvRow& row : env_table()) {
    const std::string value = row.value(now);
    text += fmt::format("{} = {}{}\n    {}\n    {}: {}; default {}\n", row.name, value,
                        value == row.fallback ? "" : "  (set)", row.meaning, row.type, row.accepts, row.fallback);
  }
  if (!foreign_table().empty()) text += "\nVariables of other programs:\n";
  for (const ForeignRow& row : foreign_table()) {
    text += fmt::format("{} = {}\n    {}\n", row.name, foreign_env(row.name).value_or("unset"), row.meaning);
  }
  return text;
}

std::string env_markdown() {
  std::string page =
      "# Environment variables\n\n"
      "Generated: `tutti env --markdown > docs/environment.md`. `tutti env` prints the current values.\n\n"
      "They are read once, at the first use of the library. An empty value counts as unset. An invalid value is an "
      "error that lists the accepted ones. A variable that starts with `TUTTI_` and is not listed here causes a "
      "warning.\n\n"
      "| variable | type | default | accepts | meaning |\n|---|---|---|---|---|\n";
  for (const EnvRow& row : env_table()) {
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, row.type, cell(row.fallback), cell(row.accepts),
                        cell(row.meaning));
  }
  if (foreign_table().empty()) return page;
  page +=
      "\n## Variables of other programs\n\nSet by launchers and the machine; Tutti only reads them.\n\n"
      "| variable | meaning |\n|---|---|\n";
  for (const ForeignRow& row : foreign_table()) page += fmt::format("| `{}` | {} |\n", row.name, cell(row.meaning));
  return page;
}

}  // namespace tutti
