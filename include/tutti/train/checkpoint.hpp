// Sharded checkpoints: each rank saves the pieces of the optimizer's state that it holds, and loads what it needs, by
// the parameters' names and places in the whole tensors. So ranks, mesh and ZeRO stage may differ when it is loaded.
//
//     FOLDER/step-00000030/manifest.json     version, step, model, number of ranks
//     FOLDER/step-00000030/rank-00000.json   what lies where in …
//     FOLDER/step-00000030/rank-00000.bin    … this file: of each piece the f32 master and both moments, little-endian
//
// All files have checksums (BLAKE2b). A checkpoint is written beside (step-….partial), synced to disk and then renamed,
// so a folder of that name is complete; the one before is removed only when two newer ones are. All ranks must see the
// same folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tutti/train/data_parallel.hpp"

namespace tutti::train {

/// What the checkpoint is of.
struct CheckpointOf {
  int64_t step = 0;      ///< steps that have been made
  std::string model;     ///< must be the same when it is loaded: one fact a line, "name value"
  std::string run;       ///< may differ when it is loaded: the same
  std::string job = {};  ///< that saved it, where ranks come and go: a name that no other job has; "": not known
};

/// A rank's part in saving and loading.
struct CheckpointPart {
  Collectives& world;  ///< all ranks, which call together
  Device& device;
  std::span<const UnitState> units;
  DataParallel& data_parallel;
  int tp_rank = 0;  ///< parameters that tensor-parallel ranks share are saved by rank 0
};

/// The newest checkpoint's step; nothing if there is none.
std::optional<int64_t> newest_checkpoint(const std::string& folder);
/// Has this job saved the newest checkpoint? False also if there is none, or its manifest is torn.
bool newest_is_of_job(const std::string& folder, const std::string& job);

/// A checkpoint could not be written, by one rank at least: the disk is full, for instance. Thrown on all ranks, which
/// can go on: the checkpoints before are whole, what was written of this one is removed, and a later one may succeed.
class NotSaved : public Error {
 public:
  explicit NotSaved(const Error& why) : Error(why) {}
};

/// Throws NotSaved on all ranks if a rank cannot write.
void save_checkpoint(const std::string& folder, const CheckpointOf& of, const CheckpointPart& part);

/// A save that goes on while training does: its own copy of this rank's state is written by a thread of its own.
class BackgroundSave {
 public:
  /// Begins. All ranks call together. Throws as save_checkpoint if the folder cannot be used.
  BackgroundSave(const std::string& folder, const CheckpointOf& of, const CheckpointPart& part);
  /// Without finish(): gives up what is not written yet.
  ~BackgroundSave();
  BackgroundSave(BackgroundSave&&) = delete;
  /// True if finish() need not wait for this rank: its part is written, on rank 0 all is; or it could not be.
  bool ended() const;
  /// True if this rank could not write.
  bool failed() const;
  /// Waits for its end. All ranks call together, and throw NotSaved for the first that could not write.
  void finish(Collectives& world);
  int64_t step() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

/// Writes a little to the folder and removes it. All ranks call together, and throw NotSaved for the first that cannot.
void try_folder(const std::string& folder, Collectives& world);

/// What two texts of facts do not have in common: "the batch was 16 and is 8, …"; "" if nothing.
std::string differences(const std::string& before, const std::string& now);

/// Loads the newest. Returns of what it is. Throws on all ranks, and says on which rank and why: Error(InvalidArgument)
/// if there is none, or of another version; Error(Mismatch) if it is of another model; Error(SystemError) if it is
/// torn.
CheckpointOf load_checkpoint(const std::string& folder, const std::string& model, const CheckpointPart& part);

}  // namespace tutti::train
