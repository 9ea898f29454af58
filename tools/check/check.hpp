// tutti run --check: can these hosts run a job together, and if not, why?
#pragma once

#include <string>

#include "tools/run/job.hpp"

namespace tutti::tools {

/// Asks every host of `job` for its facts, then lets each connect to all others, then measures each two through the
/// library; prints tables, and everything that is wrong. `json`: a file for the same; "": none. Returns the exit
/// status: 0 if all of it works. Throws Error.
int check_hosts(const Job& job, const std::string& json);

/// The part of it that runs on each host: "facts", "reach" or "pairs". It prints JSON.
int check_here(const std::string& part);

}  // namespace tutti::tools
