// A sender that waits for zero-copy receivers copies part of their messages itself (link/cooperative_copy.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "link/link.hpp"

namespace tutti::exec {

/// Copies some tiles for one reader that offers its destination, of the links `numbers` of `outs`. True if it copied
/// any.
bool copy_for_readers(link::OutLink* outs, std::span<const uint32_t> numbers);

}  // namespace tutti::exec
