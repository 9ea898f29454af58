#include "exec/execution.hpp"

namespace tutti::exec {

namespace {

/// Of messages that `range` counts: those that an instruction publishes, or those that it reads.
uint64_t message_bytes(const Program& program, Range Instruction::*range) {
  const auto of_window = [&](const WindowProgram& window) {
    uint64_t bytes = 0;
    for (const Instruction& op : window.ops) bytes += op.bytes * op.repeats * ((op.*range).end - (op.*range).begin);
    return bytes;
  };
  return (program.rounds - 1) * of_window(program.full) + of_window(program.last);
}

}  // namespace

uint64_t sent_bytes(const Program& program) { return message_bytes(program, &Instruction::outs); }

uint64_t received_bytes(const Program& program) { return message_bytes(program, &Instruction::arrivals); }

}  // namespace tutti::exec
