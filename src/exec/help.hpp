// What a rank that waits does for those that it waits for: it copies with them what it has lent (transports/help.hpp).
#pragma once

#include <span>

#include "exec/interpreter.hpp"
#include "transports/link.hpp"

namespace tutti::exec {

/// Copies one tile for a reader of one of these links, where a reader has asked for that. True when it did.
bool help_a_reader(std::span<transports::OutLink> outs);

}  // namespace tutti::exec
