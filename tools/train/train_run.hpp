// One process's part of a run of `tutti train`: over one communicator, or over those of the job's generations
// (docs/elastic.md), between which the state is kept in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/train/flags.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::tools {

class TrainRun {
 public:
  explicit TrainRun(const TrainFlags& flags) : flags_(flags) {}

  enum class End { Done, Noticed, Gather };
  /// Trains on these ranks: until the last step, a notice that the job is to end, or new processes that wait.
  End on(Communicator& comm);

 private:
  struct Due {
    int notice = 0, gather = 0, snapshot = 0, save = 0;
    int saving = 0, not_saved = 0;  ///< what is saved in the background: a rank still writes, a rank cannot write
  };
  int64_t newest(Communicator& comm) const;
  bool newest_is_own(Communicator& comm) const;
  void try_folder(train::Trainer& trainer) const;
  void prepare(Communicator& comm, train::Trainer& trainer);
  void resume(train::Trainer& trainer);
  void warn_of_changes(const std::string& changed) const;
  Due due(Communicator& comm, const train::Trainer& trainer);
  void snapshot(train::Trainer& trainer);
  void save(train::Trainer& trainer);
  void end_save(train::Trainer& trainer);
  void last_save(Communicator& comm, train::Trainer& trainer);
  void go_on_unsaved(const train::Trainer& trainer, const std::string& what, const std::function<void()>& write);
  void step(train::Trainer& trainer, std::vector<OutputFile>& traces);

  const TrainFlags& flags_;
  train::Snapshots snapshots_;
  std::optional<TrainProgress> progress_;  // if this rank has been rank 0 …
  bool prints_ = false;                    // … and whether it is now
  bool elastic_ = false;                   // ranks may change
  double snapshot_at_ = 0;                 // when the next one is due
  std::unique_ptr<train::BackgroundSave> saving_;
};

/// Trains over the generations of the job until the run is done. Returns the exit status.
int train_through_generations(const TrainFlags& flags);

}  // namespace tutti::tools
