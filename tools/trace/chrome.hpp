// A job's calls for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/calls.hpp"

namespace tutti::tools {

/// Trace Event Format: a process for each process, a thread for each of its ranks; long waits lie within their calls,
/// and arrows lead from the rank that came last to a collective to those that waited, and from sends to receives. Times
/// must be of one clock.
std::string chrome_trace(const std::vector<ProcessCalls>& processes);

}  // namespace tutti::tools
