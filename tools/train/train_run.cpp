#include "tools/train/train_run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <span>

#include "base/format.hpp"
#include "tools/train/trace.hpp"

namespace tutti::tools {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::atomic<bool> terminated{false};  // SIGTERM has come
static_assert(std::atomic<bool>::is_always_lock_free);

/// A process is ended by the second one.
void notice_sigterm() {
  std::signal(SIGTERM, [](int) {
    terminated.store(true, std::memory_order_relaxed);
    std::signal(SIGTERM, SIG_DFL);
  });
}

}  // namespace

/// Finds the state to go on from: that of the copies in memory, else the newest checkpoint's, else there is none.
void TrainRun::prepare(Communicator& comm, train::Trainer& trainer) {
  const tuttiJobState_t job = Communicator::job_state();
  if (!flags_.save.empty()) trainer.try_folder(flags_.save);
  if (job.generation > 1) {
    const bool known = trainer.restore(snapshots_);
    const bool saved = !known && !flags_.save.empty() && train::newest_checkpoint(flags_.save).has_value();
    if (saved) trainer.resume(flags_.save);
    if (prints_) {
      fmt::print(stderr, "tutti train: generation {} of {} ranks goes on after step {}, {}\n", job.generation,
                 comm.size(), trainer.steps_done(),
                 known   ? "from copies in memory"
                 : saved ? "from the newest checkpoint"
                         : "from the start: no copy is left");
    }
  } else if (flags_.resume) {
    resume(trainer);
  }
  if (elastic_) snapshot(trainer);
}

/// Goes on from the newest checkpoint.
void TrainRun::resume(train::Trainer& trainer) {
  const std::string changed = trainer.resume(flags_.save);
  if (trainer.steps_done() >= flags_.steps) {
    throw_error(Code::InvalidArgument, "step {} of {} is already done; raise --steps", trainer.steps_done(),
                flags_.steps);
  }
  if (!prints_ || changed.empty()) return;
  fmt::print(stderr, "tutti train: warning: {}: the curve is not that of one run\n", changed);
}

/// What is due after a step. Ranks hear of notices at different times, and clocks are rank 0's.
TrainRun::Due TrainRun::due(Communicator& comm, const train::Trainer& trainer) {
  const int64_t done = trainer.steps_done();
  const bool at_interval = flags_.save_every > 0 && done % flags_.save_every == 0;
  if (!elastic_ && flags_.save.empty()) return {};
  const tuttiJobState_t job = Communicator::job_state();
  Due own{.notice = job.ends_in >= 0 || terminated.load(std::memory_order_relaxed) ? 1 : 0};
  if (comm.rank() == 0) {
    own.gather = job.waiting > 0 ? 1 : 0;
    own.snapshot = elastic_ && seconds_now() >= snapshot_at_ ? 1 : 0;
    // What a generation before has saved is not saved again.
    own.save = at_interval && train::newest_checkpoint(flags_.save).value_or(0) < done ? 1 : 0;
  }
  int all[] = {own.notice, own.gather, own.snapshot, own.save};
  if (comm.size() > 1) comm.all_reduce(std::span(all), Op::Max);
  return {all[0], all[1], all[2], all[3]};
}

void TrainRun::snapshot(train::Trainer& trainer) {
  trainer.snapshot(snapshots_);
  snapshot_at_ = seconds_now() + flags_.snapshot_every;
}

void TrainRun::save(train::Trainer& trainer) {
  end_save(trainer);
  saving_ = trainer.begin_save(flags_.save);
}

void TrainRun::end_save(train::Trainer& trainer) {
  if (saving_ == nullptr) return;
  const auto ending = std::move(saving_);
  trainer.end_save(*ending);
  if (prints_) progress_->saved(flags_.save, ending->step());
}

void TrainRun::step(train::Trainer& trainer, std::vector<OutputFile>& traces) {
  const bool traced = !flags_.traces.empty() && trainer.steps_done() + 1 == flags_.steps;
  const train::StepReport report = traced ? traced_step(trainer, flags_.traces, traces) : trainer.step();
  if (prints_) progress_->step(report);
}

TrainRun::End TrainRun::on(Communicator& comm) {
  saving_.reset();  // of a generation that has failed
  const tuttiJobState_t job = Communicator::job_state();
  prints_ = comm.rank() == 0;
  elastic_ = job.generation > 0;
  if (!flags_.save.empty()) notice_sigterm();
  std::vector<OutputFile> traces;
  if (prints_ && !progress_) progress_.emplace(flags_.progress, flags_.steps, flags_.resume || job.generation > 1);
  if (prints_) traces = open_traces(flags_.traces);
  train::Trainer trainer(comm, options_for(flags_, comm.size()), train::Corpus::read(flags_.text));
  prepare(comm, trainer);
  if (prints_) progress_->begin(trainer, comm.size());
  while (trainer.steps_done() < flags_.steps) {
    step(trainer, traces);
    const Due what = due(comm, trainer);
    const bool ends = what.notice != 0 || what.gather != 0;
    if (what.snapshot != 0 || (what.gather != 0 && elastic_)) snapshot(trainer);
    if (what.save != 0 && !ends && trainer.steps_done() < flags_.steps) save(trainer);
    if (what.gather != 0 && what.notice == 0) {
      end_save(trainer);
      return End::Gather;
    }
    if (what.notice != 0) break;
  }
  if (trainer.steps_done() == flags_.steps) trainer.compare_replicas();
  end_save(trainer);
  if (!flags_.save.empty() && train::newest_checkpoint(flags_.save).value_or(0) < trainer.steps_done()) {
    save(trainer);
    end_save(trainer);
  }
  TrainProgress::end(trainer, prints_ ? &*progress_ : nullptr);
  return trainer.steps_done() < flags_.steps ? End::Noticed : End::Done;
}

bool train_through_generations(const TrainFlags& flags) {
  TrainRun run(flags);
  for (;;) {
    auto comm = Communicator::from_environment();  // what it throws ends the run
    try {
      const auto end = run.on(comm);
      comm.close();
      if (end != TrainRun::End::Gather) return true;
    } catch (const Error& error) {
      fmt::print(stderr, "tutti train: rank {}: {}\n", comm.rank(), error.what());
      comm.abort();  // ranks that wait for others than the lost one hear of it
      const bool by_others = error.code() == Code::PeerFailed || error.code() == Code::Aborted ||
                             error.code() == Code::Revoked || error.code() == Code::Timeout;
      if (!by_others) return false;
    }
  }
}

}  // namespace tutti::tools
