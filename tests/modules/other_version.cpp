// Makes the module that it is linked into one of another version of Tutti: of an older one, which knows fewer fields,
// or (NEWER) of a newer one, which knows more.
#include <cstddef>

#include "transports/module.hpp"

namespace tutti::transports {
namespace {

#ifdef NEWER
constexpr int kRevisions = 1;
constexpr const char* kVersion = "9.9";
constexpr uint64_t kBytes = sizeof(TransportEntry) + 16;
#else
constexpr int kRevisions = -1;
constexpr const char* kVersion = "0.0.9";
constexpr uint64_t kBytes = offsetof(TransportEntry, state);
#endif

void (*use_module)(const ModuleServices& services) = nullptr;

const bool is_other = [] {
  Module& module = own_module();
  module.version = kVersion;
  module.revision += kRevisions;
  if (kRevisions < 0) module.needs += kRevisions;
  if (kRevisions > 0) module.bytes += 16;
  use_module = module.use;
  module.use = [](const ModuleServices& services) {
    const_cast<TransportEntry*>(own_module().transport)->bytes = kBytes;
    use_module(services);
  };
  return true;
}();

}  // namespace
}  // namespace tutti::transports
