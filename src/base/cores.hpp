// Which processors this process may run on.
#pragma once

#include <string>
#include <vector>

namespace tutti {

/// Numbers of processors, ascending.
using Cores = std::vector<int>;

/// The affinity mask of the calling thread; one unnamed core (0) where it cannot be read.
Cores allowed_cores();

/// "0-3,8", as the kernel writes it.
std::string to_text(const Cores& cores);
/// Reads such a text. Throws Error(ProtocolError) where it makes no sense.
Cores parse_cores(const std::string& text);

}  // namespace tutti
