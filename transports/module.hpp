// What a transport module and the library exchange.
//
// A module is a shared object libtutti_NAME.so with a transport, a backend (exec/backend.hpp) or both. The sources of a
// transport are those of a folder of transports/: a class that derives from Transport, and a TransportRegistration.
// transports/module_entry.cpp, which is compiled into each module, exports the one symbol.
// transports/module_loader.hpp loads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/arena.hpp"
#include "link/link.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// Raise it when a module of before can no longer be used: with any change of what the two exchange but an addition.
inline constexpr uint32_t kModuleAbi = 100;
/// Raise it with each addition: a function at the end of Transport, Wireup or ModuleServices, a field at the end of
/// Module, TransportEntry or Context. The library uses what came with revision r only of modules of revision ≥ r.
inline constexpr uint32_t kModuleRevision = 3;

/// Differs where what the two pass to each other by value, or what both look into, differs in size: because of other
/// headers, or another standard library.
inline constexpr uint64_t kTransportLayout = [] {
  uint64_t hash = 0;
  for (const size_t size :
       {sizeof(Capabilities), sizeof(Reach), sizeof(Registration), sizeof(Wireup::Reply), sizeof(Wireup::Service),
        sizeof(ProcessId), sizeof(Path), sizeof(Status), sizeof(Error), sizeof(Deadline), sizeof(link::Arena),
        sizeof(link::LinkMemory), sizeof(link::OutLink), sizeof(link::InLink), sizeof(link::ArenaMemory),
        sizeof(link::Segment), sizeof(link::SegmentFiles)}) {
    hash = hash * 1099511628211 + size;
  }
  return hash;
}();

/// What the library does for its modules: there is one environment, one log and one set of constants in a process. A
/// module has its own tables of variables and constants, and asks by name: either may know more than the other.
struct ModuleServices {
  uint64_t bytes = 0;     ///< sizeof(ModuleServices), as the library knows it
  uint32_t revision = 0;  ///< kModuleRevision of the library
  /// As given_variable(); valid forever.
  const char* (*variable)(const char* name) = nullptr;
  /// As env_readings(): after more of them, variables may have other values.
  uint64_t (*readings)() = nullptr;
  /// The constant in use; `otherwise`: the library has none of this name.
  double (*constant)(const char* name, double otherwise) = nullptr;
  bool (*log_enabled)(int level) noexcept = nullptr;
  void (*log)(int level, const char* line) noexcept = nullptr;
};

/// What a module exports. Fields keep their places; new ones come at the end.
struct Module {
  uint64_t bytes = 0;                                     ///< sizeof(Module), as the module knows it
  const char* version = nullptr;                          ///< of Tutti, for texts
  uint32_t abi = 0;                                       ///< kModuleAbi; where it differs, nothing more is read
  uint32_t revision = 0;                                  ///< kModuleRevision that it was built with
  uint32_t needs = 0;                                     ///< the least revision of a library that it works with
  int32_t link_format = 0;                                ///< link::kLinkFormat
  uint64_t layout = 0;                                    ///< kTransportLayout
  const char* name = nullptr;                             ///< of its transport and of its backend
  const TransportEntry* transport = nullptr;              ///< null: it has none
  const void* backend = nullptr;                          ///< an exec::BackendEntry; null: it has none
  void (*use)(const ModuleServices& services) = nullptr;  ///< called before anything else of the module
};

/// Bytes of Module with revision 1.
inline constexpr uint64_t kModuleBytes = offsetof(Module, use) + sizeof(Module::use);

/// In a module: what it exports (transports/module_entry.cpp).
Module& own_module();

/// The symbol: `const Module* tutti_module()`.
inline constexpr const char* kModuleSymbol = "tutti_module";
using ModuleFunction = const Module* (*)();

}  // namespace tutti::transports
