#include "exec/host/host_backend.hpp"

#include <algorithm>
#include <bit>

#include "base/format.hpp"
#include "exec/host/cooperative_copy.hpp"
#include "exec/host/host_policies.hpp"
#include "exec/host/release_buffers.hpp"
#include "exec/host/stall.hpp"
#include "exec/host/steps.hpp"
#include "exec/idle_loop.hpp"
#include "reduce/float_environment.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

constexpr uint32_t kScratchVersions = 4;
constexpr uint64_t kScratchAlignment = 128;
constexpr double kArrivesWithin = 0.2;  // seconds between messages, once a rank was lost

Arithmetic arithmetic_of(const Reduction* reduction) {
  if (reduction == nullptr) return {};
  return {.fold = fold_function(reduction->type, reduction->op),
          .element_bytes = static_cast<uint32_t>(size_of(reduction->type)),
          .divide_by = reduction->divide_by,
          .round_each = reduction->round_each};
}

}  // namespace

HostBackend::HostBackend(Context context)
    : context_(std::move(context)), links_(*context_.links), staging_(*context_.arena) {}

HostBackend::~HostBackend() { stop_ = true; }

/// Asks what the links to these peers can do.
PeerTraits HostBackend::traits_of(const std::vector<Rank>& peers) {
  PeerTraits traits(static_cast<size_t>(context_.ranks));
  for (const Rank peer : peers) traits.at(static_cast<size_t>(peer)) = links_.traits(peer);
  return traits;
}

std::unique_ptr<Execution> HostBackend::compile(const plan::RankPlan& plan, const Geometry& geometry,
                                                const Reduction* reduction) {
  const PeerTraits traits = traits_of(peers_of(plan, geometry));
  auto made = std::make_unique<HostExecution>(lower(plan, geometry, traits), kScratchVersions, arithmetic_of(reduction),
                                              links_);
  made->own_stages(links_);
  return made;
}

std::unique_ptr<Execution> HostBackend::compile(const Direct& direct, const Reduction* reduction) {
  const PeerTraits traits = traits_of(peers_of(direct, context_.rank, context_.ranks));
  auto made = std::make_unique<HostExecution>(lower_direct(direct, context_.rank, context_.ranks, traits),
                                              kScratchVersions, arithmetic_of(reduction), links_);
  made->replicas.front()->use(shared_stages(*made));
  return made;
}

void HostBackend::give_staging(HostExecution& execution) {
  if (staging_.assign(execution.stages())) return;
  drain_staging().throw_if_bad();
  staging_.reset();
  if (!staging_.assign(execution.stages())) {
    throw_error(Code::OutOfMemory, "this rank's staging memory is too small for the call; raise TUTTI_ARENA");
  }
}

std::vector<Stage*> HostBackend::shared_stages(const HostExecution& execution) {
  // The stages to all peers share a part of the staging memory, by which the length of their messages was chosen.
  const uint64_t max_bytes =
      staging_.bytes() / machine_constants().transfer_staging / std::max<uint64_t>(1, context_.ranks);
  for (int attempt = 0; attempt < 2; ++attempt) {  // a second time if the staging memory was reset
    const uint64_t generation = staging_.generation();
    std::vector<Stage*> stages;
    for (const StageNeed& need : execution.program().stages) {
      std::vector<uint32_t> outs;
      for (const uint32_t out : need.outs) outs.push_back(execution.replicas.front()->outs[out]);
      const uint64_t bytes = std::max<uint64_t>(link::kStride, std::bit_ceil(need.slot_bytes));
      auto& stage = shared_stages_[{outs, bytes}];
      if (stage == nullptr) stage = std::make_unique<OwnedStage>(bytes, outs, &links_.stores(outs));
      OwnedStage* const one = stage.get();
      if (stage->generation != staging_.generation() && !staging_.assign({&one, 1}, max_bytes)) {
        drain_staging().throw_if_bad();
        staging_.reset();
        if (!staging_.assign({&one, 1}, max_bytes)) break;
      }
      stages.push_back(&stage->stage);
    }
    if (generation == staging_.generation() && stages.size() == execution.program().stages.size()) return stages;
  }
  throw_error(Code::OutOfMemory, "this rank's staging memory is too small for {} transfers; raise TUTTI_ARENA",
              execution.program().stages.size());
}

unsigned char* HostBackend::scratch_for(const HostExecution& execution) {
  const uint64_t bytes = execution.scratch_bytes * execution.replicas.size();
  if (scratch_bytes_ < bytes) {
    scratch_.reset(new unsigned char[bytes + kScratchAlignment]);  // uninitialised: only what was written is read
    scratch_begin_ = scratch_.get() + (0 - reinterpret_cast<uintptr_t>(scratch_.get())) % kScratchAlignment;
    scratch_bytes_ = bytes;
  }
  return scratch_begin_;
}

Pending* HostBackend::enqueue(Execution& execution, const Binding& binding) {
  auto& made = static_cast<HostExecution&>(execution);  // compile() makes no others
  if (!made.has_memory(staging_.generation())) give_staging(made);
  unsigned char* scratch = made.scratch_bytes > 0 ? scratch_for(made) : nullptr;
  for (const auto& replica : made.replicas) {
    replica->bind(binding, scratch, links_);
    scratch += made.scratch_bytes;
  }
  current_ = &made;
  done_ = false;
  loss_matters_.reset();
  if (!status_.ok()) status_ = {};
  wide_ = made.replicas.size() > 1;
  if (wide_) start_workers();
  return this;
}

/// Inlined into wait(), which the small path takes.
[[gnu::always_inline]] inline bool HostBackend::pass() {
  bool flushed = true;
  const bool joined = !wide_ || workers_.done();  // before engines move: what workers publish later is not flushed yet
  Turn turn = wide_ ? step_replicas(0) : step(*current_->replicas.front(), *current_, context_.backoff->spins > 0);
  if (turn.fault != nullptr) end_by_fault(*turn.fault);
  if (!context_.engines.empty() && status_.ok()) turn.moved = move_engines(flushed) || turn.moved;
  if (wide_) collect_workers(turn);
  done_ = (turn.done && joined && flushed) || !status_.ok();
  return turn.moved || done_;
}

bool HostBackend::poll() { return pass(); }

void HostBackend::end_by_fault(const Replica& replica) { status_ = context_.observer->fault(replica.state.fault); }

bool HostBackend::move_engines(bool& flushed) {
  bool moved = false;
  flushed = true;
  for (transports::Transport* engine : context_.engines) {
    bool some = false;
    Status status = engine->progress(some);
    moved = moved || some;
    flushed = flushed && engine->flushed();
    if (!status.ok()) {
      status_ = std::move(status);
      return moved;
    }
  }
  return moved;
}

void HostBackend::wait() {
  if (!done_) {
    const bool moved = pass();
    if (!done_) wait_on(moved);
  }
  if (!status_.ok()) abort();
}

/// After a pass that has `moved` something, or nothing. Apart, since a call that waits for nobody ends in
/// the first pass.
void HostBackend::wait_on(bool moved) {
  Pending* const alone = this;
  IdleLoop idle(*context_.backoff);
  while (!done_) {
    moved ? idle.ended({&alone, 1}) : idle.turn({&alone, 1});
    if (!done_) moved = pass();
  }
  idle.ended({&alone, 1});
}

void HostBackend::abort() {
  done_ = true;
  if (wide_) {
    stop_ = true;
    while (!workers_.done()) nap(50e-6);
    stop_ = wide_ = false;
  }
  for (transports::Transport* engine : context_.engines) engine->stop();
  release_buffers(links_.outs(), links_.ins(), [this](Rank peer) { return context_.observer->lost(peer); });
}

/// A rank was lost, and the call may still succeed: what that rank had sent has arrived, or other ranks pass it on.
bool HostBackend::loss_may_not_matter(double stalled) {
  if (context_.failed->load(std::memory_order_relaxed) != static_cast<uint32_t>(Code::PeerFailed)) return false;
  if (!loss_matters_) loss_matters_ = Deadline::in(kArrivesWithin);
  return !loss_matters_->passed() || stalled < kArrivesWithin;
}

void HostBackend::check_failure(double seconds) {
  if (done_ || context_.failed->load(std::memory_order_acquire) == 0 || loss_may_not_matter(seconds)) return;
  status_ = context_.observer->failed();
  done_ = true;
}

void HostBackend::check_stall(double seconds, uint64_t stall_id) {
  if (done_ || loss_matters_ || (wide_ && !pause_workers())) return;
  Fault fault;
  if (!refresh_counters(links_, fault)) {
    status_ = context_.observer->fault(fault);
  } else {
    Stall stall = stall_of(*current_);
    stall.seconds = seconds;
    stall.id = stall_id;
    stall.links = &links_;
    stall.engines = !context_.engines.empty();
    if (wide_) stall.threads = workers_.threads();
    Status status = context_.observer->stalled(stall);
    if (!status.ok()) status_ = std::move(status);
  }
  pause_ = kNoPause;
  done_ = !status_.ok();
}

/// Of a wide call it is not known: its lanes are its workers' too.
void HostBackend::long_wait_begins() { awaited_ = done_ || wide_ ? kNoRank : awaited_peer(*current_); }

void HostBackend::long_wait_ends(Deadline::Clock::time_point began) { context_.observer->waited(awaited_, began); }

bool HostBackend::sleep(double seconds) {
  return std::any_of(context_.engines.begin(), context_.engines.end(),
                     [seconds](transports::Transport* engine) { return engine->sleep(seconds); });
}

Status HostBackend::drain_staging() {
  Waiter waiter(*context_.backoff);
  double next_check = kFirstStallCheck;
  const uint64_t stall_id = new_stall_id();
  for (link::OutLink& out : links_.outs()) {
    while (out.acked < out.staged) {
      link::HostWire::refresh(out);
      if (out.acked >= out.staged) break;
      bool flushed = false;
      if (move_engines(flushed)) waiter.progressed();
      if (!status_.ok()) return status_;
      if (context_.failed->load(std::memory_order_acquire) != 0) return context_.observer->failed();
      const double rest = waiter.turn();
      if (rest == 0) continue;
      if (waiter.stalled() >= next_check) {
        next_check = waiter.stalled() + std::min(next_check, kLongestStallInterval);
        const PeerAwait awaited{out.peer, out.link_lane, Await::Staging};
        Status status = context_.observer->stalled({.await = Await::Staging,
                                                    .peer = out.peer,
                                                    .seconds = waiter.stalled(),
                                                    .id = stall_id,
                                                    .all = {awaited},
                                                    .links = &links_,
                                                    .engines = !context_.engines.empty()});
        if (!status.ok()) return status;
      }
      nap(rest);
    }
  }
  return {};
}

}  // namespace tutti::exec
