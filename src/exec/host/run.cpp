#include "exec/host/run.hpp"

#include <algorithm>

#include "exec/host/cooperative_copy.hpp"
#include "exec/host/host_policies.hpp"
#include "exec/host/release_buffers.hpp"
#include "reduce/prefetch.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

constexpr double kFirstCheck = 20e-3;          // seconds without progress until the first check of a stall
constexpr double kLongestCheckInterval = 1.0;  // seconds between checks at most; the interval doubles
constexpr int kBurst = 64;                     // instructions of one lane before the next lane's turn

using link::HostWire;

/// Prefetches for writing the lines that the lane writes next, while there is nothing else to do. Readers' cores hold
/// these lines; fetching them one by one as they are written would take longer than a message.
void warm(RankState& state, LaneState& lane, size_t stages) {
  if (lane.warm == lane.round + 1) return;
  lane.warm = lane.round + 1;
  constexpr uint64_t kLine = 64, kMost = MachineConstants::warm_slot;
  for (size_t i = 0; i < stages; ++i) {
    const Stage& stage = state.stages[i];
    const unsigned char* slot = stage.base + stage.uses % stage.slots * stage.slot_bytes;
    const uint64_t bytes = std::min(stage.slot_bytes, kMost);
    for (uint64_t at = 0; at < bytes; at += kLine) prefetch_for_writing(slot + at);
    for (uint32_t r = 0; r < stage.readers; ++r) {
      const link::OutLink& out = state.out[stage.outs[r]];
      prefetch_for_writing(link::slot(out.memory, out.next));
    }
  }
}

/// Runs the instructions of the rank that can run now.
bool step_lanes(Execution& e, bool& all_done) {
  bool moved = false;
  all_done = true;
  RankState& state = e.program->state;
  for (LaneState& lane : e.program->lanes) {
    Outcome outcome = Outcome::Progress;
    for (int i = 0; i < kBurst && outcome == Outcome::Progress; ++i) {
      outcome = HostInterpreter::try_step(HostGroup{}, state, lane);
      moved = moved || outcome == Outcome::Progress;
    }
    if (outcome == Outcome::Waiting) warm(state, lane, e.program->stages.size());
    if (outcome == Outcome::Fault) {
      e.status = e.observer->fault(state.fault);
      return moved;
    }
    all_done = all_done && outcome == Outcome::LaneDone;
  }
  return moved;
}

bool drained(Execution& e) {
  if (!e.program->lowered.has_zcopy) return true;
  auto& outs = e.links->outs();
  for (uint32_t out = 0; out < outs.size(); ++out) {
    if (!HostInterpreter::drained(e.program->state, out)) return false;
  }
  return true;
}

bool move_engines(Execution& e, bool& flushed) {
  bool moved = false;
  flushed = true;
  for (transports::Transport* engine : e.engines) {
    bool some = false;
    Status status = engine->progress(some);
    moved = moved || some;
    flushed = flushed && engine->flushed();
    if (!status.ok()) {
      e.status = std::move(status);
      return moved;
    }
  }
  return moved;
}

/// One pass over the call's lanes and engines. True if anything moved. `cooperates`: an idle rank copies part of its
/// zero-copy messages for their readers, if every rank has its own core.
bool advance(Execution& e, bool cooperates) {
  bool lanes_done = false, flushed = true;
  bool moved = step_lanes(e, lanes_done);
  if (e.status.ok() && !e.engines.empty()) moved = move_engines(e, flushed) || moved;
  e.done = !e.status.ok() || (lanes_done && flushed && drained(e));
  if (cooperates && !moved && !e.done && e.program->lowered.has_zcopy) moved = copy_for_readers(e.links->outs());
  return moved || e.done;
}

Stall stall_at(const Execution& e, double seconds, uint64_t id) {
  return {.seconds = seconds, .id = id, .all = {}, .links = e.links, .engines = !e.engines.empty()};
}

/// What the lanes wait for from peers. Lanes that wait for other lanes of this rank are left out.
std::vector<PeerAwait> awaits_of(const Execution& e) {
  std::vector<PeerAwait> all;
  const auto add = [&](PeerAwait one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  };
  bool lanes_done = true;
  for (const LaneState& lane : e.program->lanes) {
    if (lane.round >= e.program->state.rounds) continue;
    lanes_done = false;
    if (lane.peer != kNoRank) add({lane.peer, lane.link_lane, lane.await});
  }
  if (!lanes_done) return all;
  for (const link::OutLink& out : e.links->outs()) {
    if (out.acked < out.zcopied) add({out.peer, out.link_lane, Await::Credit});
  }
  return all;
}

Stall stall_of(const Execution& e, double seconds, uint64_t id) {
  const RankState& state = e.program->state;
  Stall stall = stall_at(e, seconds, id);
  stall.rounds = state.rounds;
  stall.all = awaits_of(e);
  for (const LaneState& lane : e.program->lanes) {
    if (lane.round >= state.rounds) continue;
    const Range ops = state.last.lanes[lane.lane];
    stall.await = lane.await;
    stall.peer = lane.peer;
    stall.lane = lane.lane;
    stall.step = state.last.ops[ops.begin + lane.op].step;
    stall.steps = ops.end - ops.begin;
    stall.round = lane.round;
    if (lane.peer != kNoRank) break;  // a lane that waits for a peer tells more than one that waits for another lane
  }
  if (stall.await != Await::Nothing) return stall;
  for (const link::OutLink& out : e.links->outs()) {  // all steps are done: zero-copy messages are still being read
    if (out.acked < out.zcopied) stall.await = Await::Credit, stall.peer = out.peer;
  }
  return stall;
}

void check_stall(Execution& e, double seconds, uint64_t id) {
  for (link::OutLink& out : e.links->outs()) {
    HostWire::refresh(out);
    if (!HostWire::broken(out)) continue;
    e.status = e.observer->fault({.kind = FaultKind::BadCounter, .peer = out.peer});
    e.done = true;
    return;
  }
  Status status = e.observer->stalled(stall_of(e, seconds, id));
  if (status.ok()) return;
  e.status = std::move(status);
  e.done = true;
}

void sleep_a_while(std::span<Execution* const> executions, double seconds) {
  for (Execution* e : executions) {
    if (e->done) continue;
    for (transports::Transport* engine : e->engines) {
      if (engine->sleep(seconds)) return;
    }
  }
  nap(seconds);
}

/// Waits while nothing moves, and checks for failures and stalls.
class IdleLoop {
 public:
  explicit IdleLoop(const Backoff& backoff) : waiter_(backoff) {}
  void ended() {
    waiter_.progressed();
    next_check_ = kFirstCheck;
  }
  void turn(std::span<Execution* const> executions) {
    const double rest = waiter_.turn();
    for (Execution* e : executions) {
      if (!e->done && e->failed->load(std::memory_order_acquire) != 0)
        e->status = e->observer->failed(), e->done = true;
    }
    if (rest == 0) return;
    if (waiter_.stalled() >= next_check_) {
      if (next_check_ == kFirstCheck) stall_id_ = new_stall_id();
      next_check_ = waiter_.stalled() + std::min(next_check_, kLongestCheckInterval);
      for (Execution* e : executions) {
        if (!e->done) check_stall(*e, waiter_.stalled(), stall_id_);
      }
    }
    sleep_a_while(executions, rest);
  }

 private:
  Waiter waiter_;
  double next_check_ = kFirstCheck;
  uint64_t stall_id_ = 0;
};

}  // namespace

uint64_t new_stall_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Loaded::Loaded(Lowered program, uint32_t versions) : lowered(std::move(program)) {
  state.full = lowered.full.tables();
  state.last = lowered.last.tables();
  state.rounds = lowered.rounds;
  state.versions = versions;
  state.scratch_bytes = lowered.scratch_bytes;
  state.offers = lowered.offers;
  state.fenced = lowered.fenced;
  state.window_bytes = lowered.window_bytes;
  const size_t count = lowered.last.lanes.size();
  lanes.resize(count);
  arrivals.resize(count * lowered.most_arrivals);
  pointers.resize(count * lowered.most_sources);
  for (size_t i = 0; i < count; ++i) {
    lanes[i].lane = static_cast<uint32_t>(i);
    lanes[i].arrivals = arrivals.data() + i * lowered.most_arrivals;
    lanes[i].pointers = pointers.data() + i * lowered.most_sources;
  }
  state.lanes = lanes.data();
  state.lane_count = static_cast<uint32_t>(count);
}

void Loaded::take_stages() {
  stages.clear();
  for (const OwnedStage& s : lowered.stages) stages.push_back(s.stage);
  state.stages = stages.data();
}

void run(Execution& e, const Backoff& backoff) {
  Execution* const alone = &e;
  IdleLoop idle(backoff);
  while (!e.done) advance(e, backoff.spins > 0) ? idle.ended() : idle.turn({&alone, 1});
  if (!e.status.ok()) abandon(e);
}

void run_until_one_is_done(std::span<Execution* const> executions, const Backoff& backoff) {
  IdleLoop idle(backoff);
  for (bool one_is_done = false; !one_is_done;) {
    bool moved = false;
    for (Execution* e : executions) {
      if (!e->done) moved = advance(*e, backoff.spins > 0) || moved;
      one_is_done = one_is_done || e->done;
    }
    moved ? idle.ended() : idle.turn(executions);
  }
  for (Execution* e : executions) {
    if (e->done && !e->status.ok()) abandon(*e);
  }
}

void abandon(Execution& e) {
  e.done = true;
  for (transports::Transport* engine : e.engines) engine->stop();
  release_buffers(e.links->outs(), e.links->ins(), [&](Rank peer) { return e.observer->lost(peer); });
}

Status drain_staging(Links& links, Execution& e, const Backoff& backoff) {
  Waiter waiter(backoff);
  double next_check = kFirstCheck;
  const uint64_t stall_id = new_stall_id();
  for (link::OutLink& out : links.outs()) {
    while (out.acked < out.staged) {
      HostWire::refresh(out);
      if (out.acked >= out.staged) break;
      bool flushed = false;
      if (move_engines(e, flushed)) waiter.progressed();
      if (!e.status.ok()) return e.status;
      if (e.failed->load(std::memory_order_acquire) != 0) return e.observer->failed();
      const double rest = waiter.turn();
      if (rest == 0) continue;
      if (waiter.stalled() >= next_check) {
        next_check = waiter.stalled() + std::min(next_check, kLongestCheckInterval);
        Stall stall = stall_at(e, waiter.stalled(), stall_id);
        stall.await = Await::Staging;
        stall.peer = out.peer;
        stall.all = {{out.peer, out.link_lane, Await::Staging}};
        Status status = e.observer->stalled(stall);
        if (!status.ok()) return status;
      }
      nap(rest);
    }
  }
  return {};
}

}  // namespace tutti::exec
