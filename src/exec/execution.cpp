#include "exec/execution.hpp"

namespace tutti::exec {

uint64_t sent_bytes(const Program& program) {
  const auto of_window = [](const WindowProgram& window) {
    uint64_t bytes = 0;
    for (const Instruction& op : window.ops) bytes += op.bytes * op.repeats * (op.outs.end - op.outs.begin);
    return bytes;
  };
  return (program.rounds - 1) * of_window(program.full) + of_window(program.last);
}

}  // namespace tutti::exec
