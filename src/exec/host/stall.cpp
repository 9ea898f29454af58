#include "exec/host/stall.hpp"

#include <algorithm>
#include <atomic>

#include "link/host_memory.hpp"

namespace tutti::exec {
namespace {

bool is_done(const Replica& replica, const LaneState& lane) { return lane.round >= replica.state.rounds; }

/// Calls visit(out) for every link whose zero-copy messages are still being read.
template <class Visit>
void each_undrained(const Replica& replica, Visit&& visit) {
  for (const uint32_t number : replica.outs) {
    const link::OutLink& out = replica.state.out[number];
    if (out.acked < out.zcopied) visit(out);
  }
}

/// What the lanes wait for from peers. Lanes that wait for other lanes of this rank are left out.
std::vector<PeerAwait> awaits_of(const HostExecution& execution) {
  std::vector<PeerAwait> all;
  const auto add = [&](PeerAwait one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  };
  bool lanes_done = true;
  for (const auto& one : execution.replicas) {
    const Replica& replica = *one;
    for (const LaneState& lane : replica.lanes) {
      if (is_done(replica, lane)) continue;
      lanes_done = false;
      if (lane.peer != kNoRank) add({lane.peer, lane.link_lane, lane.await});
    }
  }
  if (!lanes_done) return all;
  for (const auto& one : execution.replicas) {
    const Replica& replica = *one;
    each_undrained(replica, [&](const link::OutLink& out) { add({out.peer, out.link_lane, Await::Credit}); });
  }
  return all;
}

void describe(const Replica& replica, uint32_t index, const LaneState& lane, Stall& stall) {
  const RankState& state = replica.state;
  stall.replica = index;
  const Tables& tables = lane.round < state.full_rounds ? state.full : state.last;
  const Range ops = tables.lanes[lane.row];
  stall.await = lane.await;
  stall.peer = lane.peer;
  stall.lane = lane.lane;
  const Instruction& op = tables.ops[ops.begin + static_cast<uint32_t>(lane.progress)];
  stall.step = op.step;
  stall.steps = ops.end - ops.begin;
  stall.round = op.repeats > 1 ? lane.repeated : lane.round;
  stall.rounds = op.repeats > 1 ? op.repeats : state.rounds;
}

}  // namespace

uint64_t new_stall_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Stall stall_of(const HostExecution& execution) {
  Stall stall{.replicas = execution.program().width, .all = awaits_of(execution)};
  for (uint32_t i = 0; i < stall.replicas; ++i) {
    const Replica& replica = *execution.replicas[i];
    for (const LaneState& lane : replica.lanes) {
      if (is_done(replica, lane)) continue;
      describe(replica, i, lane, stall);
      if (lane.peer != kNoRank) return stall;  // it is more informative than a lane that waits for another lane
    }
  }
  if (stall.await != Await::Nothing) return stall;
  for (const auto& one : execution.replicas) {
    const Replica& replica = *one;
    stall.rounds = replica.state.rounds;
    each_undrained(replica, [&](const link::OutLink& out) { stall.await = Await::Credit, stall.peer = out.peer; });
  }
  return stall;
}

Rank awaited_peer(const HostExecution& execution) {
  for (const auto& replica : execution.replicas) {
    for (const LaneState& lane : replica->lanes) {
      if (!is_done(*replica, lane) && lane.peer != kNoRank) return lane.peer;
    }
  }
  return kNoRank;
}

bool refresh_counters(Links& links, Fault& fault) {
  for (link::OutLink& out : links.outs()) {
    link::HostWire::refresh(out);
    if (!link::HostWire::broken(out)) continue;
    fault = {.kind = FaultKind::BadCounter, .peer = out.peer};
    return false;
  }
  return true;
}

}  // namespace tutti::exec
