#include "topo/constants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "select/select.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// The library's sources outside src/topo.
std::string sources() {
  const fs::path root = TUTTI_SOURCE_DIR;
  std::string text;
  for (const char* top : {"src", "transports", "algorithms"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const bool source = entry.path().extension() == ".cpp" || entry.path().extension() == ".hpp";
      if (!source || entry.path().parent_path() == root / "src/topo") continue;
      std::ifstream file(entry.path());
      text.append(std::istreambuf_iterator<char>(file), {});
    }
  }
  return text;
}

TEST(MachineConstants, AreDocumentedAndRead) {
  const std::string text = sources();
  std::set<std::string> names;
  for (const ConstantInfo& row : constant_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " occurs twice";
    EXPECT_GT(row.value, 0) << row.name;
    for (const char* word : {row.unit, row.meaning, row.measured}) EXPECT_NE(*word, '\0') << row.name;
    const std::string read = (row.scope == ConstantScope::Compiled ? "MachineConstants::" : "machine_constants().");
    EXPECT_NE(text.find(read + row.name), std::string::npos) << "no code reads " << row.name;
  }
}

/// Replaces the constants in use while it lives.
class Replaced {
 public:
  explicit Replaced(const MachineConstants& constants) { internal::constants_in_use = constants; }
  ~Replaced() { internal::constants_in_use = MachineConstants{}; }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;
};

TEST(MachineConstants, CanBeReplaced) {
  select::CostInputs inputs{
      .ranks = 2, .inside = {.alpha = 1e-6}, .oversubscription = 2, .staging = 1 << 20, .message = 1 << 16};
  const auto seconds = [&] { return select::candidates(Collective::Barrier, 0, inputs).front().seconds; };
  MachineConstants slow;
  slow.context_switch = 1;
  const double usual = seconds();
  const Replaced replaced(slow);
  EXPECT_LT(usual, 0.1);
  EXPECT_GE(seconds(), 1);
  const auto table = constant_table();
  const auto shown = std::find_if(table.begin(), table.end(),
                                  [](const ConstantInfo& row) { return std::string(row.name) == "context_switch"; });
  ASSERT_NE(shown, table.end());
  EXPECT_EQ(shown->value, 1);
}

}  // namespace
}  // namespace tutti
