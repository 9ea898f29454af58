// The table of environment variables as data.
#include "base/env.hpp"
#include "base/env_value.hpp"
#include "base/format.hpp"

namespace tutti {
namespace {

using namespace env_value;  // the rules of the table

template <class T>
T parse_or_throw(const char* name, const std::string& value, const Rule& rule) {
  if (auto parsed = parse<T>(value, rule)) return *parsed;
  throw_error(Code::InvalidArgument, "environment variable {}=\"{}\" cannot be used; it accepts: {}", name, value,
              accepted<T>(rule));
}

}  // namespace

const std::vector<EnvRow>& env_table() {
  static const std::vector<EnvRow> kTable = {
#define TUTTI_ENV(field, type, name, fallback, rule, meaning)                                         \
  EnvRow{#field,                                                                                      \
         name,                                                                                        \
         type_word<type>(),                                                                           \
         accepted<type>(rule),                                                                        \
         show<type>(fallback, rule),                                                                  \
         meaning,                                                                                     \
         [](Env& e, const std::string& value) { e.field = parse_or_throw<type>(name, value, rule); }, \
         [](const Env& e) { return show<type>(e.field, rule); }},
#include "base/env_table.def"
  };
  return kTable;
}

const std::vector<ForeignRow>& foreign_table() {
  static const std::vector<ForeignRow> kTable = {
#define TUTTI_FOREIGN_ENV(name, meaning) ForeignRow{name, meaning},
#include "base/env_table.def"
  };
  return kTable;
}

std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (const EnvRow& row : env_table()) names.emplace_back(row.name);
  return names;
}

}  // namespace tutti
