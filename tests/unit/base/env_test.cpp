#include "base/env.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/scoped_env.hpp"
#include "tutti/error.hpp"

namespace tutti {
namespace {

using test::ScopedEnv;

std::string error_of(const char* name, const char* value) {
  try {
    const ScopedEnv bad(name, value);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "no error";
}

TEST(Environment, GivesDefaultsWhereNothingIsSet) {
  const ScopedEnv unset("TUTTI_LOG", std::nullopt);
  EXPECT_EQ(env().log, LogLevel::Warn);
}

TEST(Environment, GivesWhatIsSet) {
  const ScopedEnv set("TUTTI_LOG", "debug");
  EXPECT_EQ(env().log, LogLevel::Debug);
}

TEST(Environment, CountsAnEmptyValueAsUnset) {
  const ScopedEnv empty("TUTTI_LOG", "");
  EXPECT_EQ(env().log, LogLevel::Warn);
}

TEST(Environment, NamesVariableValueAndWhatIsAccepted) {
  EXPECT_EQ(error_of("TUTTI_LOG", "loud"),
            "environment variable TUTTI_LOG=\"loud\" cannot be used; it accepts: off, error, warn, info, debug, trace");
}

TEST(Environment, ReferencesRemainValidWhenReadAgain) {
  const Env& before = env();
  const LogLevel level = before.log;
  const ScopedEnv set("TUTTI_LOG", level == LogLevel::Trace ? "debug" : "trace");
  EXPECT_EQ(before.log, level);
  EXPECT_NE(env().log, level);
}

TEST(Environment, IsReadOnceAndNotAtEachUse) {
  const ScopedEnv set("TUTTI_LOG", "info");
  ::setenv("TUTTI_LOG", "loud", 1);
  EXPECT_EQ(env().log, LogLevel::Info);
  ::setenv("TUTTI_LOG", "info", 1);
}

TEST(Environment, FindsUnknownVariables) {
  const ScopedEnv typo("TUTTI_LGO", "info");
  const auto unknown = unknown_variables();
  EXPECT_NE(std::find(unknown.begin(), unknown.end(), "TUTTI_LGO"), unknown.end());
  EXPECT_EQ(std::find(unknown.begin(), unknown.end(), "TUTTI_LOG"), unknown.end());
}

TEST(Environment, RefusesToReadAForeignVariableWithoutARow) {
  try {
    foreign_env("PATH");
    FAIL() << "PATH is not in the table";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InternalError);
    EXPECT_NE(std::string(e.what()).find("PATH"), std::string::npos);
  }
}

TEST(Environment, ReadsForeignVariablesAsTheyAre) {
  for (const ForeignRow& row : foreign_table()) {
    const ScopedEnv set(row.name, " as it is ");
    EXPECT_EQ(foreign_env(row.name), " as it is ") << row.name;
  }
}

// Each row's default can be parsed from its text, and each listed word is accepted.
TEST(EnvironmentTable, ReadsItsOwnDefaultsBack) {
  for (const EnvRow& row : env_table()) {
    if (row.fallback == "unset") continue;
    Env e;
    row.set(e, row.fallback);
    EXPECT_EQ(row.value(e), row.fallback) << row.name;
  }
}

TEST(EnvironmentTable, RefusesInvalidValuesInEveryRowExceptText) {
  for (const EnvRow& row : env_table()) {
    if (row.accepts == "any text") continue;
    for (const char* nonsense : {"nan", "-", "1e999", "0x", "  1", "1 ", "ON?", "\xff"}) {
      Env e;
      EXPECT_THROW(row.set(e, nonsense), Error) << row.name << "=" << nonsense;
    }
  }
}

TEST(EnvironmentTable, IsPrintedWithTheCurrentValues) {
  const ScopedEnv set("TUTTI_LOG", "trace");
  EXPECT_NE(env_as_text().find("TUTTI_LOG = trace  (set)"), std::string::npos) << env_as_text();
}

}  // namespace
}  // namespace tutti
