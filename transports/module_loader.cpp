#include "transports/module_loader.hpp"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/build_parts.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "topo/constants.hpp"
#include "transports/module.hpp"

namespace tutti::transports {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    const std::string part(text.substr(0, end));
    if (!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

void add_folder(std::vector<std::string>& folders, const fs::path& path) {
  std::string folder = path.lexically_normal().string();
  if (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
}

double constant(const char* name, double otherwise) {
  for (const ConstantInfo& one : constant_table()) {
    if (std::strcmp(one.name, name) == 0) return one.value;
  }
  return otherwise;
}

const ModuleServices& services() {
  static constexpr ModuleServices kServices{
      .bytes = sizeof(ModuleServices),
      .revision = kModuleRevision,
      .variable = given_variable,
      .readings = env_readings,
      .constant = constant,
      .log_enabled = [](int level) noexcept { return log_enabled(static_cast<LogLevel>(level)); },
      .log =
          [](int level, const char* line) noexcept {
            detail::write_log(static_cast<LogLevel>(level), "{}", fmt::make_format_args(line));
          }};
  return kServices;
}

/// Why this module does not fit this library; "" if it does. Looks at a field only when those before it are right. It
/// may be of an older or a newer version: then it knows fewer or more fields at the end.
std::string misfit(const Module* module, const std::string& name) {
  if (module == nullptr || module->bytes < offsetof(Module, abi) + sizeof module->abi || module->version == nullptr) {
    return fmt::format("its {} returns no module", kModuleSymbol);
  }
  const std::string rebuild = fmt::format("it is of Tutti {}, and this is Tutti {}; build it again with this library",
                                          module->version, version());
  if (module->abi != kModuleAbi) {
    return fmt::format("its module interface is number {}, and this library's {}: {}", module->abi, kModuleAbi,
                       rebuild);
  }
  if (module->bytes < kModuleBytes) {
    return fmt::format("it describes itself in {} bytes, and the first modules of interface {} in {}", module->bytes,
                       kModuleAbi, kModuleBytes);
  }
  if (module->needs > kModuleRevision) {
    return fmt::format(
        "it needs revision {} of the module interface, and this library has {}: it is of Tutti {}, and "
        "this is Tutti {}; use a newer library",
        module->needs, kModuleRevision, module->version, version());
  }
  if (module->link_format != link::kLinkFormat) {
    return fmt::format("its links have format {}, and this library's {}: {}", module->link_format, link::kLinkFormat,
                       rebuild);
  }
  if (module->layout != kTransportLayout) {
    return fmt::format("it was compiled with other headers or another standard library: {}", rebuild);
  }
  if (module->name == nullptr || (module->transport == nullptr && module->backend == nullptr)) {
    return "it registers neither a transport nor a backend";
  }
  if (module->name != name) return fmt::format("what it registers is called {}", module->name);
  return "";
}

/// "" if its transport works on this machine; else what it says.
std::string objection(const Module& module) {
  module.use(services());
  try {
    return module.transport == nullptr || module.transport->why_not == nullptr ? "" : module.transport->why_not();
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// What to do about a module of ours that is not installed; "" for those of others.
std::string of_this_build(const std::string& name) {
  const BuildPart* const part = find_build_part(name);
  if (part == nullptr) {
    const auto known = split(TUTTI_KNOWN_MODULES, ',');
    const bool ours = std::find(known.begin(), known.end(), name) != known.end();
    return ours ? "; if this build has made it, install it, or name its folder in TUTTI_MODULE_PATH" : "";
  }
  if (part->in)
    return "; this build has it: build it with tools/build, install it, or name its folder in TUTTI_MODULE_PATH";
  return fmt::format("; this build was made without it: {}; install that, then configure and build again", part->words);
}

ModuleLoad open_module(const std::string& path, const std::string& name) {
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: what it has made stays
  if (handle == nullptr) return {.why_not = fmt::format("it cannot be loaded: {}", ::dlerror())};
  const auto function = reinterpret_cast<ModuleFunction>(::dlsym(handle, kModuleSymbol));
  if (function == nullptr) {
    return {.why_not = fmt::format("{} is no module of Tutti: it has no symbol {}", path, kModuleSymbol)};
  }
  const Module* const module = function();
  std::string why_not = misfit(module, name);
  if (why_not.empty()) why_not = objection(*module);
  if (!why_not.empty()) return {.why_not = fmt::format("{}: {}", path, why_not)};
  return {.module = module};
}

}  // namespace

ModuleSearch module_search(const Env& environment, const std::string& own, bool privileged) {
  ModuleSearch search{.names = split(TUTTI_KNOWN_MODULES, ',')};
  if (!privileged) {
    search.listed = split(environment.modules, ',');
    for (const std::string& name : search.listed) {
      if (std::find(search.names.begin(), search.names.end(), name) == search.names.end()) search.names.push_back(name);
    }
    for (const std::string& folder : split(environment.module_path, ':')) {
      if (fs::path(folder).is_absolute()) {
        add_folder(search.folders, folder);
      } else {
        search.ignored += fmt::format("; '{}' in TUTTI_MODULE_PATH is ignored: it is not an absolute path", folder);
      }
    }
  } else if (!environment.modules.empty() || !environment.module_path.empty()) {
    search.ignored =
        "; TUTTI_MODULES and TUTTI_MODULE_PATH are ignored: this program runs with rights that its caller lacks";
  }
  if (!own.empty()) {
    const fs::path here(own);
    add_folder(search.folders, here);
    // Relative to the program or library, so that an installed tree may be moved.
    const bool beside_programs = here.filename() == TUTTI_INSTALL_BINDIR;
    add_folder(search.folders, (beside_programs ? here.parent_path() / TUTTI_INSTALL_LIBDIR : here) / "tutti");
  }
  return search;
}

/// Not from dladdr(): of a program that would return argv[0], which its caller chooses.
std::string own_folder(bool privileged) {
  const auto here = reinterpret_cast<uintptr_t>(&own_folder);
  std::ifstream maps("/proc/self/maps");  // "begin-end rights offset device inode   path"
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || here < begin || here >= end) continue;
    if (line.find('/') == std::string::npos) break;
    const fs::path file(line.substr(line.find('/')));
    std::error_code failure;
    const fs::path program = fs::read_symlink("/proc/self/exe", failure);
    if (privileged && (failure || file == program)) break;
    return file.parent_path().string();
  }
  return "";
}

bool is_privileged() { return ::getauxval(AT_SECURE) != 0; }

ModuleLoad load_module(const std::string& name, const ModuleSearch& search) {
  if (!is_name(name)) {
    return {.why_not =
                "the name of a module consists of lower-case letters, digits and '_'; its file is found by "
                "TUTTI_MODULE_PATH"};
  }
  const std::string file = fmt::format("libtutti_{}.so", name);
  for (const std::string& folder : search.folders) {
    const fs::path path = fs::path(folder) / file;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return open_module(path.string(), name);
  }
  if (search.folders.empty()) return {.why_not = "not looked for: there is no folder to search" + search.ignored};
  return {.why_not = fmt::format("not installed ({} is in none of {}{}){}", file, fmt::join(search.folders, ", "),
                                 search.ignored, of_this_build(name))};
}

}  // namespace tutti::transports
