// A sender that waits for zero-copy receivers copies part of their messages itself (link/cooperative_copy.hpp).
#pragma once

#include <span>

#include "exec/interpreter.hpp"
#include "link/link.hpp"

namespace tutti::exec {

/// Copies some tiles for one reader of these links that offers its destination. True if it copied any.
bool copy_for_readers(std::span<link::OutLink> outs);

}  // namespace tutti::exec
