// Finds, checks and opens transport modules (transports/module.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "transports/transport.hpp"

namespace tutti::transports {

/// Which modules are looked for, and where.
struct ModuleSearch {
  std::vector<std::string> names;    ///< those that Tutti knows of, and those of TUTTI_MODULES
  std::vector<std::string> listed;   ///< those of TUTTI_MODULES
  std::vector<std::string> folders;  ///< in this order; all absolute
  std::string ignored;               ///< what of the variables is ignored, and why; "" if nothing
};

/// `own`: the folder of this library, "" if unknown. `privileged`: nothing of the environment is used.
ModuleSearch module_search(const Env& environment, const std::string& own, bool privileged);

/// The folder of the file that holds this code: of libtutti.so, or of a program that contains it. "" for a privileged
/// program: its caller may have linked it into a folder of his own.
std::string own_folder(bool privileged);
/// Does this process have rights that its caller lacks (set-uid, file capabilities)?
bool is_privileged();

struct Module;  // transports/module.hpp

/// A module, or why there is none.
struct ModuleLoad {
  const Module* module = nullptr;
  std::string why_not;
};

/// Opens libtutti_NAME.so in the first folder that has it. It stays open if it can be used.
ModuleLoad load_module(const std::string& name, const ModuleSearch& search);

}  // namespace tutti::transports
