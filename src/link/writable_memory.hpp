// Whether memory can be read or written, found out by no signal and no write that anybody sees.
#pragma once

#include <cstdint>

namespace tutti::link {

/// Both ends of these bytes are mapped, and this process may write to them. (Between them, nobody looks.)
bool is_writable(const void* memory, uint64_t bytes);

/// This process may read all of these bytes, or write to them: a system call for each page, so this is for errors.
bool is_readable_throughout(const void* memory, uint64_t bytes);
bool is_writable_throughout(const void* memory, uint64_t bytes);

}  // namespace tutti::link
