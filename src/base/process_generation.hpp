// Which process this is, counted by forks: what a parent has made is told from what its child makes.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {
namespace detail {
extern std::atomic<uint64_t> g_process_generation;
}

/// Changes in the child of every fork. At least 1.
inline uint64_t process_generation() { return detail::g_process_generation.load(std::memory_order_relaxed); }

}  // namespace tutti
