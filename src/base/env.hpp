// Environment variables. env_table.def lists them and describes how to add one.
//
// They are read once, at the first use of the library: later setenv calls have no effect. An empty value counts as
// unset. An invalid value is an error that lists the accepted ones.
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

/// Whether processes read each other's memory (CMA).
enum class Cma : uint8_t { Off, Auto, Always };

/// Whether plans that were synthesised for this machine are candidates: none; those that are kept; or also, where none
/// are kept, those that are made in the background.
enum class Synth : uint8_t { Off, Kept, Auto };

/// Which signal has a process write its last calls.
enum class TraceSignalName : uint8_t { None, Usr1, Usr2 };

/// How messages travel between GPUs.
enum class CudaWire : uint8_t { Auto, Slots, Ll, Ll128, CopyEngine, Nvls };
/// How ranks reach each other's memory for links between GPUs: transports/cuda/memory.hpp.
enum class CudaMemory : uint8_t { Auto, Fd, Ipc, Host };

/// One field for each of Tutti's own variables, e.g. `env().log`.
struct Env {
#define TUTTI_ENV(field, type, name, fallback, rule, meaning) type field = fallback;
#include "base/env_table.def"
};

/// This process's variables. Thread-safe; the reference remains valid forever. Throws Error(InvalidArgument) that names
/// the variable, its value and what is accepted.
const Env& env();

/// A variable of `foreign_table()`, such as a launcher's RANK; empty if unset or empty. Asking for one that the table
/// lacks is a defect of Tutti: Error(InternalError).
std::optional<std::string> foreign_env(const char* name);

/// The valid variables; invalid ones count as unset. For a process that must report to others why it cannot continue.
/// Never throws.
struct UsableEnv {
  Env ours;
  std::map<std::string, std::string, std::less<>> given;  ///< of ours, as the environment has them
  std::map<std::string, std::string, std::less<>> others;
};
UsableEnv usable_env();

/// The text of a variable of Tutti's, as `env()` was read from it; null if it is unset or unknown. It remains valid
/// forever.
const char* given_variable(const char* name);
/// How often the environment has been read: at least once.
uint64_t env_readings();

/// One of Tutti's own variables, where the environment does not set it, for what reads it from now on. Throws
/// Error(InvalidArgument) for an unknown name or an invalid value.
void set_env_default(const std::string& name, const std::string& value);

/// Reads the environment again. For tests, and for programs that set variables for themselves before they start
/// threads; earlier references keep their old values.
void reload_env();

/// A row of the table, as data.
struct EnvRow {
  const char* field;     ///< in `Env`
  const char* name;      ///< "TUTTI_…"
  std::string type;      ///< "switch", "integer", "number", "bytes", "word" or "text"
  std::string accepts;   ///< the accepted values, in messages
  std::string fallback;  ///< the default; "unset" if the library decides
  const char* meaning;
  void (*set)(Env&, const std::string& value);  ///< throws as `env()` does
  std::string (*value)(const Env&);             ///< as text
};

/// A variable of another program that Tutti reads.
struct ForeignRow {
  const char* name;
  const char* meaning;
};

const std::vector<EnvRow>& env_table();
const std::vector<ForeignRow>& foreign_table();

/// The names of Tutti's own variables.
std::vector<std::string> variable_names();

/// Names in the environment that start with TUTTI_ and are not in the table: usually misspelt.
std::vector<std::string> unknown_variables();

/// The output of `tutti env`: every variable with its value, the accepted values and its meaning. Throws as `env()`
/// does.
std::string env_as_text();

/// The page docs/environment.md.
std::string env_markdown();

}  // namespace tutti
