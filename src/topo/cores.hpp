// Which processors this process may run on.
#pragma once

#include <string>
#include <vector>

namespace tutti {

/// Processor numbers, ascending.
using Cores = std::vector<int>;

/// The affinity mask of the calling thread; {0} if it cannot be read.
Cores allowed_cores();

/// The kernel's format: "0-3,8".
std::string to_text(const Cores& cores);
/// Reads such a text. Throws Error(ProtocolError) if it is invalid.
Cores parse_cores(const std::string& text);

}  // namespace tutti
