// The backends that this process has: registered ones, and those of modules.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/format.hpp"
#include "base/log.hpp"
#include "exec/backend.hpp"

namespace tutti::exec {
namespace {

struct Registry {
  std::vector<const BackendEntry*> usable;
  std::vector<transports::UnusableModule> unusable;
};

Registry& registry() {
  static auto* const kRegistry = new Registry;
  return *kRegistry;
}

/// Bytes of the first version's entry: what every one has. Later fields come behind.
constexpr uint64_t kEntryBytes = offsetof(BackendEntry, state) + sizeof(BackendEntry::state);

/// Why this backend does not fit this library; "" if it does.
std::string misfit(const BackendEntry& entry) {
  if (entry.abi != kBackendAbi || entry.bytes < kEntryBytes) {
    return fmt::format(
        "its backend was built for another version of this library (interface {}; this one has {}): build it again "
        "with this library",
        entry.abi, kBackendAbi);
  }
  if (entry.layout == kBackendLayout) return "";
  return "its backend was compiled with other headers of this library, or with another standard library: build it "
         "again with this one's";
}

/// A copy of the fields that its maker knows; the others are empty.
void add(const BackendEntry& entry) {
  auto* const known = new BackendEntry{};
  std::memcpy(static_cast<void*>(known), &entry, std::min<size_t>(entry.bytes, sizeof *known));
  known->bytes = sizeof *known;
  register_methods(known->methods);
  registry().usable.push_back(known);
}

const Registry& with_modules() {
  static const bool kLoaded = [] {
    for (const transports::LoadedModule& module : transports::loaded_modules()) {
      if (module.backend == nullptr) continue;
      const BackendEntry& entry = *static_cast<const BackendEntry*>(module.backend);
      const std::string why_not = misfit(entry);
      if (why_not.empty()) {
        add(entry);
      } else {
        log_warn("module {} cannot be used: {}", module.name, why_not);
        registry().unusable.push_back({module.name, why_not});
      }
    }
    // Ranks agree on one backend after the other: in the same order, whatever the order of their modules.
    std::sort(registry().usable.begin(), registry().usable.end(),
              [](const BackendEntry* a, const BackendEntry* b) { return std::string_view(a->name) < b->name; });
    return true;
  }();
  (void)kLoaded;
  return registry();
}

}  // namespace

BackendRegistration::BackendRegistration(const BackendEntry& entry) { add(entry); }

const std::vector<const BackendEntry*>& backends() { return with_modules().usable; }
const std::vector<transports::UnusableModule>& unusable_backends() { return with_modules().unusable; }

}  // namespace tutti::exec
