// What a rank that waits does for those that it waits for: it copies with them what it has lent
// (link/cooperative_copy.hpp).
#pragma once

#include <span>

#include "exec/interpreter.hpp"
#include "link/link.hpp"

namespace tutti::exec {

/// Copies one tile for a reader of one of these links, where a reader has asked for that. True when it did.
bool copy_for_readers(std::span<link::OutLink> outs);

}  // namespace tutti::exec
