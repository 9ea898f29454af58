// Whether memory can be written, found out by no write that anybody sees.
#pragma once

#include <cstdint>

namespace tutti::link {

/// Both ends of these bytes are mapped, and this process may write to them. (Between them, nobody looks.)
bool is_writable(const void* memory, uint64_t bytes);

}  // namespace tutti::link
