#include "tools/train/train_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <span>

#include "base/env.hpp"
#include "base/format.hpp"
#include "tools/exit_status.hpp"
#include "tools/train/trace.hpp"

namespace tutti::tools {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A process is ended by the second one.
void notice_signals() {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int which) {
      Communicator::set_job_end(0);
      std::signal(which, SIG_DFL);
    });
  }
}

std::string newest_of(const std::string& folder) {
  const std::optional<int64_t> step = train::newest_checkpoint(folder);
  return step ? fmt::format("the newest checkpoint is that of step {}", *step) : "there is no checkpoint yet";
}

}  // namespace

/// The newest checkpoint's step as rank 0 sees it; 0: there is none.
int64_t TrainRun::newest(Communicator& comm) const {
  int64_t step = 0;
  if (comm.rank() == 0 && !flags_.save.empty()) step = train::newest_checkpoint(flags_.save).value_or(0);
  if (comm.size() > 1) comm.broadcast(step, 0);
  return step;
}

/// Has this very job saved the newest checkpoint, as rank 0 sees it?
bool TrainRun::newest_is_own(Communicator& comm) const {
  int own = comm.rank() == 0 && train::newest_is_of_job(flags_.save, env().job) ? 1 : 0;
  if (comm.size() > 1) comm.broadcast(own, 0);
  return own != 0;
}

/// A folder in which nothing can be saved is refused, as a wrong word of the command line.
void TrainRun::try_folder(train::Trainer& trainer) const {
  try {
    trainer.try_folder(flags_.save);
  } catch (const train::NotSaved& why) {
    throw Error(Code::InvalidArgument, why.what());
  }
}

/// Finds the state to go on from: that of the copies in memory, else that of this job's newest checkpoint. Where there
/// is neither, no step of this job is left, and what a first start refuses is refused now too: a rank that was started
/// again may have left one that refused.
void TrainRun::prepare(Communicator& comm, train::Trainer& trainer) {
  const tuttiJobState_t job = Communicator::job_state();
  const bool again = job.generation > 1, saves = !flags_.save.empty();
  const bool copies = again && trainer.restore(snapshots_);
  const int64_t saved = newest(comm);
  if (copies || (again && saved > 0 && newest_is_own(comm))) {
    if (!copies) warn_of_changes(trainer.resume(flags_.save));
    if (saves) go_on_unsaved(trainer, "checkpoints cannot be saved now", [&] { trainer.try_folder(flags_.save); });
  } else {
    if (saves) try_folder(trainer);
    if (flags_.resume) {
      resume(trainer);
    } else if (saved > 0) {  // a run that does not resume must not add to another run's checkpoints
      throw_error(Code::InvalidArgument,
                  "--save {}: there is a checkpoint of step {}; go on from it with --resume, or choose another folder",
                  flags_.save, saved);
    }
  }
  if (again && prints_) {
    fmt::print(stderr, "tutti train: generation {} of {} ranks goes on after step {}, {}\n", job.generation,
               comm.size(), trainer.steps_done(),
               copies                     ? "from copies in memory"
               : trainer.steps_done() > 0 ? "from the newest checkpoint"
                                          : "from the start: no copy is left");
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
  warn_of_changes(changed);
}

void TrainRun::warn_of_changes(const std::string& changed) const {
  if (!prints_ || changed.empty()) return;
  fmt::print(stderr, "tutti train: warning: {}: the curve is not that of one run\n", changed);
}

/// What is due after a step. Ranks hear of notices at different times, and clocks are rank 0's.
TrainRun::Due TrainRun::due(Communicator& comm, const train::Trainer& trainer) {
  const int64_t done = trainer.steps_done();
  const bool at_interval = flags_.save_every > 0 && done % flags_.save_every == 0;
  if (!elastic_ && flags_.save.empty()) return {};
  const tuttiJobState_t job = Communicator::job_state();
  Due own{.notice = job.ends_in >= 0 ? 1 : 0};
  if (comm.rank() == 0) {
    own.gather = job.waiting > 0 ? 1 : 0;
    own.snapshot = elastic_ && seconds_now() >= snapshot_at_ ? 1 : 0;
    // What a generation before has saved is not saved again.
    own.save = at_interval && train::newest_checkpoint(flags_.save).value_or(0) < done ? 1 : 0;
  }
  if (saving_ != nullptr) {
    own.saving = saving_->ended() ? 0 : 1;
    own.not_saved = saving_->failed() ? 1 : 0;
  }
  int all[] = {own.notice, own.gather, own.snapshot, own.save, own.saving, own.not_saved};
  if (comm.size() > 1) comm.all_reduce(std::span(all), Op::Max);
  return {all[0], all[1], all[2], all[3], all[4], all[5]};
}

void TrainRun::snapshot(train::Trainer& trainer) {
  trainer.snapshot(snapshots_);
  snapshot_at_ = seconds_now() + flags_.snapshot_every;
}

/// A checkpoint that cannot be written does not end the run: the state is in memory, and a later one may be written.
void TrainRun::go_on_unsaved(const train::Trainer& trainer, const std::string& what,
                             const std::function<void()>& write) {
  try {
    write();
  } catch (const train::NotSaved& why) {
    if (!prints_) return;
    const int64_t done = trainer.steps_done(), every = flags_.save_every > 0 ? flags_.save_every : flags_.steps;
    fmt::print(stderr,
               "tutti train: warning: {}: {}; training goes on, and {}; make room in {}: step {} is saved next\n", what,
               why.what(), newest_of(flags_.save), flags_.save,
               std::min<int64_t>((done / every + 1) * every, flags_.steps));
  }
}

/// In the background.
void TrainRun::save(train::Trainer& trainer) {
  end_save(trainer);
  go_on_unsaved(trainer, fmt::format("step {} is not saved", trainer.steps_done()),
                [&] { saving_ = trainer.begin_save(flags_.save, env().job); });
}

void TrainRun::end_save(train::Trainer& trainer) {
  if (saving_ == nullptr) return;
  const auto ending = std::move(saving_);
  go_on_unsaved(trainer, fmt::format("step {} is not saved", ending->step()), [&] {
    trainer.end_save(*ending);
    if (prints_) progress_->saved(flags_.save, ending->step());
  });
}

/// With this one the state would be lost.
void TrainRun::last_save(Communicator& comm, train::Trainer& trainer) {
  end_save(trainer);
  if (flags_.save.empty() || newest(comm) >= trainer.steps_done()) return;
  try {
    trainer.save(flags_.save, env().job);
  } catch (const train::NotSaved& why) {
    throw_error(why.code(), "step {} is not saved: {}; {}; make room in {}, and go on from there with --resume",
                trainer.steps_done(), why.what(), newest_of(flags_.save), flags_.save);
  }
  if (prints_) progress_->saved(flags_.save, trainer.steps_done());
}

void TrainRun::step(train::Trainer& trainer, std::vector<OutputFile>& traces) {
  const int64_t left = flags_.traces.empty() ? 0 : flags_.steps - trainer.steps_done();
  const train::StepReport report = left == 1   ? traced_step(trainer, flags_.traces, traces)
                                   : left == 2 ? trainer.rehearse_step()
                                               : trainer.step();
  if (prints_) progress_->step(report);
}

TrainRun::End TrainRun::on(Communicator& comm) {
  saving_.reset();  // of a generation that has failed
  const tuttiJobState_t job = Communicator::job_state();
  prints_ = comm.rank() == 0;
  elastic_ = job.generation > 0;
  std::vector<OutputFile> traces;
  if (prints_ && !progress_) progress_.emplace(flags_.progress, flags_.steps, flags_.resume || job.generation > 1);
  if (!flags_.save.empty()) notice_signals();  // after the progress line's own
  if (prints_) traces = open_traces(flags_.traces);
  train::Trainer trainer(comm, options_for(flags_, comm.size()), train::Corpus::read(flags_.text));
  prepare(comm, trainer);
  if (prints_) progress_->begin(trainer, comm.size());
  while (trainer.steps_done() < flags_.steps) {
    step(trainer, traces);
    const Due what = due(comm, trainer);
    const bool ends = what.notice != 0 || what.gather != 0;
    if (what.saving == 0 || what.not_saved != 0) end_save(trainer);
    if (what.snapshot != 0 || (what.gather != 0 && elastic_)) snapshot(trainer);
    if (what.save != 0 && !ends && trainer.steps_done() < flags_.steps) save(trainer);
    if (what.gather != 0 && what.notice == 0) {
      end_save(trainer);
      return End::Gather;
    }
    if (what.notice != 0) {
      if (prints_ && !flags_.save.empty()) {
        fmt::print(stderr, "tutti train: asked to end: saves step {} first; a second Ctrl-C does not wait for that\n",
                   trainer.steps_done());
      }
      break;
    }
  }
  if (trainer.steps_done() == flags_.steps) trainer.compare_replicas();
  last_save(comm, trainer);
  TrainProgress::end(trainer, prints_ ? &*progress_ : nullptr);
  return trainer.steps_done() < flags_.steps ? End::Noticed : End::Done;
}

int train_through_generations(const TrainFlags& flags) {
  constexpr int kMaxFailures = 1000;
  TrainRun run(flags);
  for (int failures = 0; failures < kMaxFailures; ++failures) {
    std::optional<Communicator> comm;
    try {
      comm = Communicator::from_environment();
      const auto end = run.on(*comm);
      comm->close();
      if (end != TrainRun::End::Gather) return 0;
    } catch (const Error& error) {
      const bool made = comm.has_value() && !comm->empty();
      fmt::print(stderr, "tutti train: {}{}\n", made ? fmt::format("rank {}: ", comm->rank()) : "", error.what());
      if (made) comm->abort();  // ranks that wait for others than the lost one hear of it
      // While it is made, Aborted means that the job ends.
      const bool by_others = error.code() == Code::PeerFailed || error.code() == Code::Timeout ||
                             error.code() == Code::Revoked || (made && error.code() == Code::Aborted);
      if (!by_others) return status_of(error);
    }
  }
  return 1;
}

}  // namespace tutti::tools
