#include "exec/host/steps.hpp"

#include <algorithm>

#include "exec/host/cooperative_copy.hpp"
#include "exec/host/host_policies.hpp"
#include "reduce/prefetch.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

/// Prefetches for writing the lines that the lane writes next, while there is nothing else to do. Readers' cores hold
/// these lines; fetching them one by one as they are written would take longer than a message.
void warm(const Replica& replica, LaneState& lane) {
  if (lane.host->warm == lane.round + 1) return;
  lane.host->warm = lane.round + 1;
  constexpr uint64_t kLine = 64, kMax = MachineConstants::warm_slot;
  for (const Stage* stage : replica.stages()) {
    if (stage->stores->streams()) continue;
    const unsigned char* slot = stage->base + stage->next * stage->slot_bytes;
    const uint64_t bytes = std::min(stage->slot_bytes, kMax);
    for (uint64_t at = 0; at < bytes; at += kLine) prefetch_for_writing(slot + at);
    for (uint32_t r = 0; r < stage->readers; ++r) {
      const link::OutLink& out = replica.state.out[stage->outs[r]];
      prefetch_for_writing(link::slot(out.ring, out.next));
    }
  }
}

bool drained(const Replica& replica) {
  return std::all_of(replica.outs.begin(), replica.outs.end(),
                     [&](uint32_t out) { return HostInterpreter::drained(replica.state.out[out]); });
}

}  // namespace

Turn step(Replica& replica, const HostExecution& execution, bool cooperates) {
  Turn turn{.done = true};
  for (LaneState& lane : replica.lanes) {
    Outcome outcome = Outcome::Progress;
    for (int i = 0; i < MachineConstants::burst && outcome == Outcome::Progress; ++i) {
      outcome = HostInterpreter::try_step(HostGroup{}, replica.state, lane);
      turn.moved = turn.moved || outcome == Outcome::Progress;
    }
    if (outcome == Outcome::Waiting) warm(replica, lane);
    if (outcome == Outcome::Fault) return {.moved = true, .done = false, .fault = &replica};
    turn.done = turn.done && outcome == Outcome::LaneDone;
  }
  if (!execution.program().has_zero_copy) return turn;
  turn.done = turn.done && drained(replica);
  if (cooperates && !turn.moved && !turn.done) turn.moved = copy_for_readers(replica.state.out, replica.outs);
  return turn;
}

}  // namespace tutti::exec
