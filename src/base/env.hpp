// Environment variables. The list of them is env_table.def, where the way to add one is written too.
//
// They are read once, at the first use of the library, and never again: a program may call setenv later without harm.
// An empty value counts as unset. A value that cannot be used is an error that says what can.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace tutti {

/// How much is logged: a level includes those before it.
enum class LogLevel : uint8_t { Off, Error, Warn, Info, Debug, Trace };

/// Whether processes read each other's memory.
enum class Cma : uint8_t { Off, Auto, Always };

/// One field for each of our variables, e.g. `env().log`.
struct Env {
#define TUTTI_ENV(field, type, name, fallback, rule, meaning) type field = fallback;
#include "base/env_table.def"
};

/// The variables as this process found them. Thread-safe; the reference stays good for ever.
/// Throws Error(InvalidArgument) that names the variable, its value and what is accepted.
const Env& env();

/// A variable of `foreign_table()`, such as a launcher's RANK, as this process found it; nothing when unset or empty.
/// Asking for one that the table lacks is a defect of ours: Error(InternalError).
std::optional<std::string> foreign_env(const char* name);

/// What of the environment can be used; the rest counts as unset. For a process that is to tell others, by what is
/// there, why it cannot go on. Never throws.
struct UsableEnv {
  Env ours;
  std::map<std::string, std::string, std::less<>> others;
};
UsableEnv usable_env();

/// Reads the environment again. For tests, and for programs that set variables for themselves before any other thread
/// runs; references that `env()` returned before keep their old values.
void reload_env();

/// A row of the table, as data.
struct EnvRow {
  const char* field;     ///< in `Env`
  const char* name;      ///< "TUTTI_…"
  std::string type;      ///< "switch", "integer", "number", "bytes", "word" or "text"
  std::string accepts;   ///< what a value may be, for people
  std::string fallback;  ///< the default; "unset" where the library decides
  const char* meaning;
  void (*set)(Env&, const std::string& value);  ///< throws as `env()` does
  std::string (*value)(const Env&);             ///< as text
};

/// A variable of somebody else that we read.
struct ForeignRow {
  const char* name;
  const char* meaning;
};

const std::vector<EnvRow>& env_table();
const std::vector<ForeignRow>& foreign_table();

/// The names of all our variables.
std::vector<std::string> variable_names();

/// Names in the environment that start with TUTTI_ and that the table lacks: misspelt, most often.
std::vector<std::string> unknown_variables();

/// What `tutti env` prints: every variable with its value now, what it accepts and means. Throws as `env()` does.
std::string env_as_text();

/// The page docs/environment.md.
std::string env_markdown();

}  // namespace tutti
