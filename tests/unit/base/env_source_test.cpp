// The table of environment variables against the sources and the documentation: code reads only variables of the table,
// and the table has no variable that no code reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/env.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = TUTTI_SOURCE_DIR;

struct Source {
  std::string name, text;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// All code except the table's own.
std::vector<Source> sources() {
  std::vector<Source> found;
  for (const char* folder : {"src", "transports", "algorithms", "tools"}) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path& path = entry.path();
      const bool code = std::regex_match(path.extension().string(), std::regex(R"(\.(cpp|hpp|h|cu|cuh|def))"));
      const bool table = path.parent_path() == kRoot / "src/base" && path.filename().string().rfind("env", 0) == 0;
      if (code && !table) found.push_back({fs::relative(path, kRoot).string(), contents(path)});
    }
  }
  return found;
}

bool in_table(const std::string& name) {
  return std::any_of(env_table().begin(), env_table().end(), [&](const EnvRow& row) { return name == row.name; });
}

/// A macro of the public header, which error texts may name.
bool in_header(const std::string& name) {
  static const std::string kHeader = contents(kRoot / "include/tutti/tutti.h");
  return kHeader.find("#define " + name) != std::string::npos;
}

/// How this source violates the rule that variables are read only through the table; empty if it does not.
std::string complaint(const Source& source) {
  if (std::regex_search(source.text, std::regex(R"(\bgetenv\b)"))) {
    return source.name + " calls getenv; add a row to src/base/env_table.def and read env() or foreign_env()";
  }
  const std::regex literal(R"re("(?:[^"\\\n]|\\.)*")re"), variable(R"(\bTUTTI_[A-Z0-9_]+\b)");
  for (std::sregex_iterator quoted(source.text.begin(), source.text.end(), literal), end; quoted != end; ++quoted) {
    const std::string text = quoted->str();
    for (std::sregex_iterator name(text.begin(), text.end(), variable); name != end; ++name) {
      if (!in_table(name->str()) && !in_header(name->str()))
        return source.name + " names " + name->str() + ", which src/base/env_table.def lacks";
    }
  }
  return "";
}

/// The members of env() and the like that it reads.
std::set<std::string> fields_read(const Source& source) {
  static const std::regex kMember(R"(env\w*(\(\))?\.(ours\.)?(\w+))");
  std::set<std::string> fields;
  for (std::sregex_iterator found(source.text.begin(), source.text.end(), kMember), end; found != end; ++found) {
    fields.insert(found->str(3));
  }
  return fields;
}

bool reads_foreign(const Source& source, const std::string& name) {
  return source.text.find('"' + name + '"') != std::string::npos;
}

TEST(EnvironmentSources, ReadOnlyVariablesOfTheTable) {
  const auto all = sources();
  ASSERT_GT(all.size(), 5u) << "the sources were not found under " << kRoot;
  for (const Source& source : all) EXPECT_EQ(complaint(source), "");
}

TEST(EnvironmentSources, ReadEveryVariableOfTheTable) {
  const auto all = sources();
  std::set<std::string> fields;
  for (const Source& source : all) fields.merge(fields_read(source));
  const auto read_by_some = [&](const auto& reads, const char* what) {
    return std::any_of(all.begin(), all.end(), [&](const Source& source) { return reads(source, what); });
  };
  const auto asks = [](const Source& source, const char* name) {  // a library on the public API
    return source.text.find(std::string("tuttiGetVariable(\"") + name + '"') != std::string::npos;
  };
  for (const EnvRow& row : env_table()) {
    EXPECT_TRUE(fields.count(row.field) != 0 || read_by_some(asks, row.name))
        << "no code reads env()." << row.field << " (" << row.name << ")";
  }
  for (const ForeignRow& row : foreign_table()) {
    EXPECT_TRUE(read_by_some(reads_foreign, row.name)) << "no code reads foreign_env(\"" << row.name << "\")";
  }
}

TEST(EnvironmentSources, ViolationsAreReported) {
  EXPECT_NE(complaint({"a.cpp", R"(const char* level = std::getenv("HOME");)"}), "");
  EXPECT_NE(complaint({"a.cpp", R"(throw_error(code, "say \"please\" or raise TUTTI_NO_SUCH_THING");)"}), "");
  EXPECT_EQ(complaint({"a.cpp", R"(throw_error(code, "set TUTTI_LOG=debug");)"}), "");
  EXPECT_EQ(complaint({"a.cpp", "#define TUTTI_SOME_MACRO 1"}), "");
  EXPECT_EQ(fields_read({"a.cpp", "if (env().log == LogLevel::Off) return;"}), std::set<std::string>{"log"});
  EXPECT_EQ(fields_read({"a.cpp", "if (usable_env().ours.log == LogLevel::Off) return;"}),
            std::set<std::string>{"log"});
  EXPECT_EQ(fields_read({"a.cpp", "log(env().login, message.log);"}), std::set<std::string>{"login"});
}

TEST(EnvironmentSources, HaveTheirPageInTheDocumentation) {
  if (contents(kRoot / "docs/environment.md") == env_markdown()) return;
  const fs::path right = fs::absolute("environment.md");
  std::ofstream(right) << env_markdown();
  FAIL() << "docs/environment.md is not what src/base/env_table.def says. Regenerate it:\n  tutti env --markdown > "
         << "docs/environment.md\nor copy " << right;
}

/// Bars that separate cells: those without a backslash before them, even in code.
size_t bars(const std::string& line) {
  size_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) count += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
  return count;
}

TEST(EnvironmentSources, HaveAPageWhoseTablesAreWhole) {
  std::istringstream page(env_markdown());
  size_t wanted = 0;  // bars of the table's heading
  bool any = false;
  for (std::string line; std::getline(page, line);) {
    if (line.empty() || line.front() != '|') {
      wanted = 0;
      continue;
    }
    if (wanted == 0) wanted = bars(line);
    EXPECT_EQ(bars(line), wanted) << line;
    any = any || line.find("\\|") != std::string::npos;
  }
  EXPECT_TRUE(any) << "no row has a bar in a cell, so this test shows nothing";
}

}  // namespace
}  // namespace tutti
