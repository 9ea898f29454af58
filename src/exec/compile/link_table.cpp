#include "exec/compile/link_table.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace tutti::exec {

void add_outs(Program& program, WindowProgram& window, LinkTable& links, const std::vector<uint32_t>& readers,
              const OutMessage& message, const DeliveryRules& rules, Instruction& op) {
  op.outs.begin = static_cast<uint32_t>(window.outs.size());
  bool staged = false;
  uint32_t pushed = 0, in_lines = 0;
  for (const uint32_t link : readers) {
    const link::Access out = links.out_traits(link);
    const Decision decision = decide(message, out, rules);
    const Delivery delivery = decision.delivery;
    program.has_zero_copy = program.has_zero_copy || is_zero_copy(delivery);
    if (delivery == Delivery::Inline) op.slot = Slot::Small;
    staged = staged || delivery == Delivery::Staged;
    in_lines += is_flagged(delivery) ? 1 : 0;
    if (delivery == Delivery::Pushed) {
      ++pushed;
      op.push_to = static_cast<uint32_t>(window.outs.size());
      if (op.bytes > out.push_bytes) {
        throw_error(Code::Unsupported,
                    "a message of {} bytes to rank {}, whose memory takes {} at a time: lower TUTTI_MESSAGE", op.bytes,
                    links.reader(link), out.push_bytes);
      }
    }
    window.outs.push_back({link, delivery});
    window.decisions.push_back(decision);
  }
  op.outs.end = static_cast<uint32_t>(window.outs.size());
  op.push_copies = in_lines > 0 || pushed > 1 || (pushed > 0 && staged);
  if (pushed == 1 && !op.push_copies) op.slot = Slot::Push;
  const bool is_somewhere = message.in_memory || op.slot == Slot::Small;  // inline to one reader, pushed to others
  if (!staged && !(op.push_copies && !is_somewhere)) return;
  op.slot = Slot::Stage;
  op.stage = stage_for(program, readers, op.bytes);
}

uint32_t stage_for(Program& program, const std::vector<uint32_t>& outs, uint64_t bytes) {
  uint32_t stage = 0;
  while (stage < program.stages.size() && program.stages[stage].outs != outs) ++stage;
  if (stage == program.stages.size()) program.stages.push_back({.outs = outs});
  uint64_t& slot = program.stages[stage].slot_bytes;
  slot = std::max(slot, bytes);
  return stage;
}

}  // namespace tutti::exec
