#include "exec/pending.hpp"

#include "exec/idle_loop.hpp"

namespace tutti::exec {

void wait_for_one(std::span<Pending* const> calls, const Backoff& backoff) {
  IdleLoop idle(backoff);
  for (bool one_is_done = false; !one_is_done;) {
    bool moved = false;
    for (Pending* call : calls) {
      if (!call->done()) moved = call->poll() || moved;
      one_is_done = one_is_done || call->done();
    }
    moved ? idle.ended(calls) : idle.turn(calls);
  }
  idle.ended(calls);
  for (Pending* call : calls) {
    if (call->done() && !call->status().ok()) call->abort();
  }
}

}  // namespace tutti::exec
