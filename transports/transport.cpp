#include "transports/transport.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "transports/module_loader.hpp"

namespace tutti::transports {
namespace {

std::vector<TransportEntry>& registry() {
  static std::vector<TransportEntry> all;
  return all;
}

void add(const TransportEntry& entry) {
  auto& all = registry();
  const auto position = std::find_if(all.begin(), all.end(),
                                     [&](const TransportEntry& other) { return other.preference > entry.preference; });
  all.insert(position, entry);
}

bool is_registered(const std::string& name) {
  return std::any_of(registry().begin(), registry().end(),
                     [&](const TransportEntry& entry) { return entry.name == name; });
}

/// Adds the modules to the registry; returns those that cannot be used.
std::vector<UnusableModule> load_modules() {
  std::vector<UnusableModule> unusable;
  const ModuleSearch search = module_search(env(), own_folder(is_privileged()), is_privileged());
  for (const std::string& name : search.names) {
    const bool listed = std::find(search.listed.begin(), search.listed.end(), name) != search.listed.end();
    if (is_registered(name)) {
      log_warn("TUTTI_MODULES names {}, which is not a module: it is built in", name);
      continue;
    }
    const ModuleLoad loaded = load_module(name, search);
    if (loaded.entry) {
      add(*loaded.entry);
      continue;
    }
    if (listed) log_warn("TUTTI_MODULES: transport {} cannot be used: {}", name, loaded.why_not);
    unusable.push_back({name, loaded.why_not});
  }
  return unusable;
}

}  // namespace

TransportRegistration::TransportRegistration(const TransportEntry& entry) { add(entry); }

const std::vector<UnusableModule>& unusable_modules() {
  static const auto* const kUnusable = new std::vector<UnusableModule>(load_modules());  // of the first call
  return *kUnusable;
}

const std::vector<TransportEntry>& transports() {
  unusable_modules();
  return registry();
}

}  // namespace tutti::transports
