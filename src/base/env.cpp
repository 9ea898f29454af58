#include "base/env.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/spelling.hpp"

namespace tutti {
namespace {

// ---- one reading of the environment

using Snapshot = UsableEnv;

/// The defaults given to set_env_default.
struct Defaults {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;
};

Defaults& defaults() {
  static auto* const kDefaults = new Defaults;
  return *kDefaults;
}

std::optional<std::string> read(const char* name) {
  const char* value = std::getenv(name);  // the only call, once per variable
  if (value != nullptr && *value != '\0') return value;
  const std::lock_guard lock(defaults().mutex);
  const auto found = defaults().values.find(name);
  return found == defaults().values.end() ? std::nullopt : std::optional(found->second);
}

/// Calls `mistaken` for each invalid value; it may throw.
std::unique_ptr<Snapshot> read_environment(void (*mistaken)(const Error&)) {
  auto snapshot = std::make_unique<Snapshot>();
  for (const EnvRow& row : env_table()) {
    const auto value = read(row.name);
    if (!value) continue;
    try {
      row.set(snapshot->ours, *value);
      snapshot->given.emplace(row.name, *value);
    } catch (const Error& error) {
      mistaken(error);
    }
  }
  for (const ForeignRow& row : foreign_table()) {
    if (const auto value = read(row.name)) snapshot->others.emplace(row.name, *value);
  }
  return snapshot;
}

std::unique_ptr<const Snapshot> read_environment() {
  return read_environment([](const Error& error) { throw Error(error); });
}

/// Keeps every reading, since references that `env()` returned must remain valid. Never destroyed, like the logger.
struct Readings {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Snapshot>> all;
  std::atomic<const Snapshot*> current{nullptr};
};

Readings& readings() {
  static auto* const kReadings = new Readings;
  return *kReadings;
}

/// Under the lock.
const Snapshot& adopt(Readings& r, std::unique_ptr<const Snapshot> snapshot) {
  r.all.push_back(std::move(snapshot));
  r.current.store(r.all.back().get(), std::memory_order_release);
  return *r.all.back();
}

void warn_of_unknown_variables() {
  for (const std::string& name : unknown_variables()) {
    log_warn("environment variable {} is set, but there is no such variable{}; `tutti env` lists all", name,
             did_you_mean(name, variable_names()));
  }
}

/// The first caller reads; if that throws, the next caller tries again.
const Snapshot& current() {
  Readings& r = readings();
  if (const Snapshot* snapshot = r.current.load(std::memory_order_acquire)) return *snapshot;
  const Snapshot* snapshot = nullptr;
  {
    const std::lock_guard lock(r.mutex);
    snapshot = r.current.load(std::memory_order_relaxed);
    if (snapshot != nullptr) return *snapshot;
    snapshot = &adopt(r, read_environment());
  }
  warn_of_unknown_variables();  // without the lock: the logger asks for env()
  return *snapshot;
}

}  // namespace

const Env& env() { return current().ours; }

UsableEnv usable_env() {
  return *read_environment([](const Error&) {});
}

const char* given_variable(const char* name) {
  const auto& given = current().given;
  const auto found = given.find(std::string_view(name));
  return found == given.end() ? nullptr : found->second.c_str();
}

uint64_t env_readings() {
  current();
  const std::lock_guard lock(readings().mutex);
  return readings().all.size();
}

std::optional<std::string> foreign_env(const char* name) {
  const bool known = std::any_of(foreign_table().begin(), foreign_table().end(),
                                 [&](const ForeignRow& row) { return std::strcmp(row.name, name) == 0; });
  if (!known) throw_error(Code::InternalError, "environment variable {} is read but has no row in env_table.def", name);
  const auto& values = current().others;
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void reload_env() {
  Readings& r = readings();
  auto snapshot = read_environment();
  const std::lock_guard lock(r.mutex);
  set_log_level(adopt(r, std::move(snapshot)).ours.log);
}

void set_env_default(const std::string& name, const std::string& value) {
  const auto row =
      std::find_if(env_table().begin(), env_table().end(), [&](const EnvRow& r) { return name == r.name; });
  if (row == env_table().end()) throw_error(Code::InvalidArgument, "{} is not a variable of Tutti", name);
  Env checked;
  row->set(checked, value);
  {
    const std::lock_guard lock(defaults().mutex);
    defaults().values[name] = value;
  }
  reload_env();
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string_view name = line.substr(0, line.find('='));
    if (name.substr(0, 6) != "TUTTI_") continue;
    const bool known =
        std::any_of(env_table().begin(), env_table().end(), [&](const EnvRow& row) { return name == row.name; });
    if (!known) unknown.emplace_back(name);
  }
  return unknown;
}

}  // namespace tutti
