// Compiled into each module, not into the library: exports what the module registers, and passes on to the library what
// there may be only once in a process (the environment, the log, the measured constants).
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "topo/constants.hpp"
#include "transports/module.hpp"

namespace tutti {
namespace transports {
namespace {

const ModuleServices* services = nullptr;

/// The library's figures, by the names of this module's table.
void take_constants() {
  MachineConstants& mine = internal::constants_in_use;
#define TUTTI_TAKE_Compiled(type, name)
#define TUTTI_TAKE_PerRank(type, name) \
  mine.name = static_cast<type>(services->constant(#name, static_cast<double>(mine.name)));
#define TUTTI_TAKE_PerJob(type, name) TUTTI_TAKE_PerRank(type, name)
#define TUTTI_CONSTANT(scope, type, name, value, unit, meaning, measured) TUTTI_TAKE_##scope(type, name)
#include "topo/constants.def"
#undef TUTTI_TAKE_Compiled
#undef TUTTI_TAKE_PerRank
#undef TUTTI_TAKE_PerJob
}

/// The variables as the library has read them, in this module's table. Readings are kept: references remain valid.
class Variables {
 public:
  const Env& current() {
    const uint64_t readings = services->readings();
    if (readings_.load(std::memory_order_acquire) == readings) return *current_.load(std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    auto made = std::make_unique<Env>();
    for (const EnvRow& row : env_table()) {
      const char* const given = services->variable(row.name);
      if (given != nullptr) row.set(*made, given);
    }
    current_.store(all_.emplace_back(std::move(made)).get(), std::memory_order_relaxed);
    readings_.store(readings, std::memory_order_release);
    return *all_.back();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<const Env>> all_;
  std::atomic<const Env*> current_{nullptr};
  std::atomic<uint64_t> readings_{0};
};

}  // namespace

Module& own_module() {
  static Module made{.bytes = sizeof(Module),
                     .version = version(),
                     .abi = kModuleAbi,
                     .revision = kModuleRevision,
                     .needs = kModuleRevision,
                     .link_format = link::kLinkFormat,
                     .layout = kTransportLayout,
                     .use = [](const ModuleServices& library) {
                       services = &library;
                       take_constants();
                     }};
  return made;
}

TransportRegistration::TransportRegistration(const TransportEntry& entry) {
  own_module().transport = new TransportEntry(entry);
  own_module().name = entry.name;
}

extern "C" __attribute__((visibility("default"))) const Module* tutti_module() { return &own_module(); }

}  // namespace transports

const Env& env() {
  static auto* const kVariables = new transports::Variables;
  return kVariables->current();
}

bool log_enabled(LogLevel level) noexcept { return transports::services->log_enabled(static_cast<int>(level)); }

namespace detail {

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept {
  if (!log_enabled(level)) return;
  try {
    transports::services->log(static_cast<int>(level), fmt::vformat(text, args).c_str());
  } catch (...) {  // a message that cannot be written must not fail the caller
  }
}

}  // namespace detail
}  // namespace tutti
