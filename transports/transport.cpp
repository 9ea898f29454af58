#include "transports/transport.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "transports/module.hpp"
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

/// What this library knows of an entry that a module of another version has made.
TransportEntry known_part(const TransportEntry& entry) {
  TransportEntry known{};
  std::memcpy(static_cast<void*>(&known), &entry, std::min<size_t>(entry.bytes, sizeof known));
  known.bytes = sizeof known;
  return known;
}

struct Modules {
  std::vector<LoadedModule> loaded;
  std::vector<UnusableModule> unusable;
};

/// Adds the modules' transports to the registry.
Modules load_modules() {
  Modules modules;
  const ModuleSearch search = module_search(env(), own_folder(is_privileged()), is_privileged());
  for (const std::string& name : search.names) {
    const bool listed = std::find(search.listed.begin(), search.listed.end(), name) != search.listed.end();
    if (is_registered(name)) {
      log_warn("TUTTI_MODULES names {}, which is not a module: it is built in", name);
      continue;
    }
    const ModuleLoad loaded = load_module(name, search);
    if (loaded.module != nullptr) {
      if (loaded.module->transport != nullptr) add(known_part(*loaded.module->transport));
      modules.loaded.push_back({name, loaded.module->backend});
      continue;
    }
    if (listed) log_warn("TUTTI_MODULES: module {} cannot be used: {}", name, loaded.why_not);
    modules.unusable.push_back({name, loaded.why_not});
  }
  return modules;
}

const Modules& modules() {
  static const auto* const kModules = new Modules(load_modules());  // of the first call
  return *kModules;
}

}  // namespace

TransportRegistration::TransportRegistration(const TransportEntry& entry) { add(entry); }

namespace {
WrapRegistration::Wrap& wrap_in_use() {
  static WrapRegistration::Wrap wrap = nullptr;
  return wrap;
}
}  // namespace

WrapRegistration::WrapRegistration(Wrap wrap) { wrap_in_use() = wrap; }

std::unique_ptr<Transport> make(const TransportEntry& entry, const Context& context) {
  std::unique_ptr<Transport> made = entry.make(context);
  return wrap_in_use() == nullptr ? std::move(made) : wrap_in_use()(std::move(made), context);
}

const std::vector<LoadedModule>& loaded_modules() { return modules().loaded; }
const std::vector<UnusableModule>& unusable_modules() { return modules().unusable; }

const std::vector<TransportEntry>& transports() {
  modules();
  return registry();
}

}  // namespace tutti::transports
