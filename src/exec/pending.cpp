#include "exec/executor.hpp"

#include "exec/host/idle_loop.hpp"

namespace tutti::exec {

uint64_t sent_bytes(const Program& program) {
  const auto of_window = [](const WindowProgram& window) {
    uint64_t bytes = 0;
    for (const Instruction& op : window.ops) bytes += op.bytes * op.repeats * (op.outs.end - op.outs.begin);
    return bytes;
  };
  return (program.rounds - 1) * of_window(program.full) + of_window(program.last);
}

void drain_one(std::span<Executor* const> executors, const Backoff& backoff) {
  IdleLoop idle(backoff);
  for (bool one_is_done = false; !one_is_done;) {
    bool moved = false;
    for (Executor* e : executors) {
      if (!e->done()) moved = e->poll() || moved;
      one_is_done = one_is_done || e->done();
    }
    moved ? idle.ended() : idle.turn(executors);
  }
  for (Executor* e : executors) {
    if (e->done() && !e->status().ok()) e->abort();
  }
}

}  // namespace tutti::exec
