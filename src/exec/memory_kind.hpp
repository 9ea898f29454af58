#pragma once

#include <cstdint>

namespace tutti::exec {

/// Where a call's buffers lie; it decides which executor runs the call.
enum class MemoryKind : uint8_t { Host, Device };

}  // namespace tutti::exec
