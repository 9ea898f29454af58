#include "exec/gpu/call_count.hpp"

#include <sched.h>

#include "base/format.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr int kYields = 64;     // before it sleeps
constexpr double kNap = 20e-6;  // seconds

}  // namespace

uint64_t CallCount::ended() const {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(record_.counted)).load(std::memory_order_acquire);
}

uint64_t CallCount::next(uint64_t limit) const {
  if (enqueued_ >= limit) wait_for(enqueued_ + 1 - limit);
  return enqueued_ + 1;
}

void CallCount::wait_for(uint64_t number) const {
  for (int turn = 0; ended() < number; ++turn) {
    if (failed_.load(std::memory_order_acquire) != 0) {
      throw_error(Code::PeerFailed, "the communicator has failed while this call waited for {} earlier ones",
                  enqueued_ - ended());
    }
    turn < kYields ? void(sched_yield()) : nap(kNap);
  }
}

}  // namespace tutti::exec::gpu
