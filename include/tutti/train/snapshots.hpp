// Copies of the optimizer's state in memory, by which training goes on after a loss: each rank keeps the state that a
// checkpoint would save of it, and the same of another rank. A job that loses ranks makes a communicator of those that
// are left, or of them and new ones (docs/elastic.md), and a trainer on it, which gets its state from the copies,
// whatever its number of ranks, mesh and ZeRO stage.
//
// The copy of a rank is kept by one on another host, unless a host has more than half of the ranks. A step is whole
// unless a rank and the one that keeps its copy are lost together.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "tutti/train/checkpoint.hpp"

namespace tutti::train {

class Snapshots {
 public:
  Snapshots();
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  /// Copies the state and sends it to the rank that keeps it. All ranks call together. Only when all ranks have the new
  /// copies are older ones dropped.
  void take(const CheckpointOf& of, const CheckpointPart& part);
  /// Replaces the state by that of the newest step of which the ranks have all copies. All ranks of a communicator,
  /// which may be another one, call together; new processes have nothing to give. Returns the step that it is of;
  /// nothing, and changes nothing, if no step is whole. Throws as load_checkpoint does.
  std::optional<CheckpointOf> restore(const std::string& model, const CheckpointPart& part);
  /// What the copies take of this rank's memory.
  size_t bytes() const;

 private:
  struct Copy;
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace tutti::train
