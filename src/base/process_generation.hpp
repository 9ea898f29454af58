// Counts forks, to distinguish objects that a parent made from those of its child.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {
namespace detail {
extern std::atomic<uint64_t> g_process_generation;
}

/// Different in the child of every fork. At least 1.
inline uint64_t process_generation() { return detail::g_process_generation.load(std::memory_order_relaxed); }

}  // namespace tutti
