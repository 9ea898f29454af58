#include "base/process_generation.hpp"

#include <pthread.h>

namespace tutti {
namespace {

[[maybe_unused]] const int g_registered =
    pthread_atfork(nullptr, nullptr, [] { detail::g_process_generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

constinit std::atomic<uint64_t> detail::g_process_generation{1};

}  // namespace tutti
