// What a transport module and the library exchange.
//
// A module is a shared object libtutti_NAME.so with one transport. Its sources are those of a folder of transports/:
// a class that derives from Transport, and a TransportRegistration. transports/module_entry.cpp, which is compiled into
// each module, exports the one symbol. transports/module_loader.hpp loads it.
#pragma once

#include <cstdint>

#include "base/env.hpp"
#include "link/arena.hpp"
#include "link/link.hpp"
#include "topo/constants.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// Raise it with any change of Transport, Wireup or Arena that kTransportLayout does not notice: a function that is
/// added, moved, or means something else.
inline constexpr uint32_t kTransportAbi = 4;

/// Differs where what the two share differs in size: because of other headers, or another standard library.
inline constexpr uint64_t kTransportLayout = [] {
  uint64_t hash = 0;
  for (const size_t size :
       {sizeof(TransportEntry), sizeof(Context), sizeof(Capabilities), sizeof(Reach), sizeof(Registration),
        sizeof(Wireup::Reply), sizeof(Wireup::Service), sizeof(ProcessId), sizeof(Status), sizeof(Error),
        sizeof(Deadline), sizeof(Env), sizeof(MachineConstants), sizeof(link::Arena), sizeof(link::LinkMemory),
        sizeof(link::OutLink), sizeof(link::InLink)}) {
    hash = hash * 1099511628211 + size;
  }
  return hash;
}();

/// What the library does for its modules: there is one environment, one log and one set of constants in a process.
struct ModuleServices {
  const MachineConstants& (*constants)();
  const Env& (*env)();
  bool (*log_enabled)(LogLevel level) noexcept;
  void (*log)(LogLevel level, const char* line) noexcept;
};

/// What a module exports. The first two fields never change their places.
struct Module {
  uint64_t bytes = 0;             ///< sizeof(Module)
  const char* version = nullptr;  ///< of Tutti
  int32_t link_format = 0;        ///< link::kLinkFormat
  uint32_t abi = 0;               ///< kTransportAbi
  uint64_t layout = 0;            ///< kTransportLayout
  TransportEntry entry{};
  void (*use)(const ModuleServices& services) = nullptr;  ///< called before anything else of the module
};

/// The symbol: `const Module* tutti_module()`.
inline constexpr const char* kModuleSymbol = "tutti_module";
using ModuleFunction = const Module* (*)();

}  // namespace tutti::transports
