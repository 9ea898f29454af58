// Compiled into modules that have a backend, not into the library: the module exports it.
#include "exec/backend.hpp"
#include "transports/module.hpp"

namespace tutti::exec {

BackendRegistration::BackendRegistration(const BackendEntry& entry) {
  transports::own_module().backend = new BackendEntry(entry);
  transports::own_module().name = entry.name;
}

}  // namespace tutti::exec
