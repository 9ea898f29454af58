// Modules that the library must refuse: each describes itself with one thing wrong.
#include "transports/module.hpp"

#ifndef STUB_FORMAT
#define STUB_FORMAT 0
#endif
#ifndef STUB_ABI
#define STUB_ABI 0
#endif
#ifndef STUB_LAYOUT
#define STUB_LAYOUT 0
#endif
#ifndef STUB_SIZE
#define STUB_SIZE 0
#endif
#ifndef STUB_REVISION
#define STUB_REVISION 0
#endif
#ifndef STUB_NEEDS
#define STUB_NEEDS 0
#endif

namespace tutti::transports {

#ifdef STUB_UNRESOLVED
int no_library_has_this();
const int unresolved = no_library_has_this();
#endif

#ifndef STUB_NO_SYMBOL
extern "C" __attribute__((visibility("default"))) const Module* tutti_module() {
  static const TransportEntry entry{.name = STUB_NAME, .summary = "unusable", .preference = 1, .make = nullptr};
  static Module module{.bytes = sizeof(Module) + STUB_SIZE,
                       .version = STUB_VERSION,
                       .abi = kModuleAbi + STUB_ABI,
                       .revision = kModuleRevision + STUB_REVISION,
                       .needs = kModuleRevision + STUB_NEEDS,
                       .link_format = link::kLinkFormat + STUB_FORMAT,
                       .layout = kTransportLayout + STUB_LAYOUT,
                       .name = STUB_NAME,
                       .transport = &entry,
                       .use = [](const ModuleServices&) {}};
#ifdef STUB_RENAMED
  module.name = "somebody";
#endif
#ifdef STUB_EMPTY
  module.transport = nullptr;
#endif
#ifdef STUB_NULL
  return nullptr;
#endif
  return &module;
}
#endif

}  // namespace tutti::transports
