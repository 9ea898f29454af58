#include "tools/info_transports.hpp"

#include <fmt/format.h>

#include <string>

#include "exec/backend.hpp"
#include "transports/transport.hpp"

namespace tutti::tools {
namespace {

template <class Entry>
std::string line_of(const Entry& entry) {
  return entry.state != nullptr ? entry.state() : fmt::format("usable: {}", entry.summary);
}

}  // namespace

nlohmann::ordered_json transport_lines() {
  nlohmann::ordered_json lines;
  for (const transports::TransportEntry& entry : transports::transports()) lines[entry.name] = line_of(entry);
  for (const exec::BackendEntry* entry : exec::backends()) lines[entry->name] = line_of(*entry);
  for (const auto* unusable : {&transports::unusable_modules(), &exec::unusable_backends()}) {
    for (const transports::UnusableModule& module : *unusable) lines[module.name] = "not usable: " + module.why_not;
  }
  return lines;
}

std::vector<std::string> usable_between_hosts() {
  std::vector<std::string> names;
  for (const transports::TransportEntry& entry : transports::transports()) {
    if (entry.between_hosts && line_of(entry).starts_with("usable")) names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace tutti::tools
