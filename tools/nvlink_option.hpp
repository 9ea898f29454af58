// --nvlink GB/s: for topologies whose file leaves NVLink out.
#pragma once

#include <CLI/CLI.hpp>

namespace tutti::tools {

/// `gbps`: of each GPU, in one direction; stays 0 without the option.
inline CLI::Option* add_nvlink(CLI::App& command, double& gbps) {
  return command
      .add_option("--nvlink", gbps,
                  "GPUs of a host are joined by NVLink, though the file has none: GB/s of each, one way")
      ->check(CLI::Range(1.0, 1e5))
      ->type_name("GB/S");
}

}  // namespace tutti::tools
