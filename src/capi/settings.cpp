// The C interface for libraries built on this one: environment variables and the log.
#include <algorithm>
#include <string>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "capi/handles.hpp"

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

namespace {

thread_local std::string t_value;

template <class Table>
auto find_row(const Table& table, const std::string& name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return name == row.name; });
}

}  // namespace

tuttiResult_t tuttiGetVariable(const char* name, const char** value) {
  return guarded([&] {
    const std::string wanted = &required(name, "name");
    required(value, "value") = nullptr;
    if (const auto own = find_row(env_table(), wanted); own != env_table().end()) {
      t_value = own->value(env());
    } else if (find_row(foreign_table(), wanted) == foreign_table().end()) {
      throw_error(Code::InvalidArgument, "{} is no variable that `tutti env` lists", wanted);
    } else if (const auto set = foreign_env(wanted.c_str())) {
      t_value = *set;
    } else {
      return;
    }
    *value = t_value.c_str();
  });
}

tuttiResult_t tuttiSetDefault(const char* name, const char* value) {
  return guarded([&] { set_env_default(&required(name, "name"), &required(value, "value")); });
}

tuttiResult_t tuttiLog(const char* level, const char* text) {
  return guarded([&] {
    const std::string wanted = &required(level, "level");
    const char* const line = &required(text, "text");
    if (wanted == "error") return log_error("{}", line);
    if (wanted == "warn") return log_warn("{}", line);
    if (wanted == "info") return log_info("{}", line);
    if (wanted == "debug") return log_debug("{}", line);
    throw_error(Code::InvalidArgument, "\"{}\" is no level: use error, warn, info or debug", wanted);
  });
}
