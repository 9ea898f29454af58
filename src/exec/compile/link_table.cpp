#include "exec/compile/link_table.hpp"

#include <algorithm>

namespace tutti::exec {

uint32_t stage_for(Program& program, const std::vector<uint32_t>& outs, uint64_t bytes) {
  uint32_t stage = 0;
  while (stage < program.stages.size() && program.stages[stage].outs != outs) ++stage;
  if (stage == program.stages.size()) program.stages.push_back({.outs = outs});
  uint64_t& slot = program.stages[stage].slot_bytes;
  slot = std::max(slot, bytes);
  return stage;
}

}  // namespace tutti::exec
