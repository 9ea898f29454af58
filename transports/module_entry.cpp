// Compiled into each module, not into the library: exports the module's transport, and passes on to the library what
// there may be only once in a process (the environment, the log, the measured constants).
#include <fmt/format.h>

#include "base/log.hpp"
#include "base/version.hpp"
#include "transports/module.hpp"

namespace tutti {
namespace transports {
namespace {

const ModuleServices* services = nullptr;

Module& module() {
  static Module made{.bytes = sizeof(Module),
                     .version = version(),
                     .link_format = link::kLinkFormat,
                     .abi = kTransportAbi,
                     .layout = kTransportLayout,
                     .use = [](const ModuleServices& library) {
                       services = &library;
                       internal::constants_in_use = library.constants();
                     }};
  return made;
}

}  // namespace

TransportRegistration::TransportRegistration(const TransportEntry& entry) { module().entry = entry; }

extern "C" __attribute__((visibility("default"))) const Module* tutti_module() { return &module(); }

}  // namespace transports

const Env& env() { return transports::services->env(); }

bool log_enabled(LogLevel level) noexcept { return transports::services->log_enabled(level); }

namespace detail {

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept {
  if (!log_enabled(level)) return;
  try {
    transports::services->log(level, fmt::vformat(text, args).c_str());
  } catch (...) {  // a message that cannot be written must not fail the caller
  }
}

}  // namespace detail
}  // namespace tutti
