// ZeRO (Rajbhandari et al., SC 2020): replicas that do not each hold the whole state, but a piece of it. Of mixed
// precision's 16 bytes a parameter (Ψ parameters, N replicas):
//
//     stage   weights 2Ψ   gradients 2Ψ   Adam: master, 2 moments 12Ψ    bytes held     elements sent, × (N−1)/N
//     1       whole        whole          1/N                            4Ψ + 12Ψ/N     2Ψ: reduce-scatter, all-gather
//     2       whole        1/N            1/N                            2Ψ + 14Ψ/N     2Ψ
//     3       1/N          1/N            1/N                            16Ψ/N          3Ψ: weights are gathered twice
//
// A strategy is two parts: who holds the weights, and who holds the gradients; each is whole or sharded. Each rank's
// optimizer updates the rank's piece of every unit.
#pragma once

#include <memory>
#include <vector>

#include "train/core/clock.hpp"
#include "train/data_parallel/partition.hpp"

namespace tutti::train {

/// A rank's piece of a run, with the optimizer's state.
struct Shard : Run {
  Span weights, gradients;  // the piece's
  Adam adam;
  /// The exact weights.
  Span master() const { return adam.master().empty() ? weights : adam.master(); }
};

/// What the parts of a strategy share.
struct ZeroState {
  DataParallelOptions options;
  Ledger& ledger;
  ReplicaGroups groups;
  std::span<UnitState> units;
  std::vector<std::vector<Shard>> shards;  // [unit]
  Device& device() const { return ledger.device(); }
  template <class Function>
  void each_shard(Function function) {
    for (auto& of_unit : shards) {
      for (Shard& shard : of_unit) function(shard);
    }
  }
  /// Memory for all units whole. Sets each unit's span of it, and each shard's.
  Buffer hold_whole(Kind kind, Span UnitState::*of_unit, Span Shard::*of_shard);
  /// Memory for this rank's pieces of all units. Sets each shard's span of it.
  Buffer hold_pieces(Kind kind, Span Shard::*of_shard);
};

/// Who holds the weights.
class ZeroWeights {
 public:
  virtual ~ZeroWeights() = default;
  /// Allocates; sets the shards' spans, and those of the units that are held whole.
  virtual void attach() = 0;
  virtual void needed(size_t unit, Pass pass) = 0;
  virtual void next(size_t unit) = 0;
  virtual void done(size_t unit, Pass pass) = 0;
  /// A unit's shards have new values. Other replicas may not have them until needed().
  virtual void changed(size_t unit, Purpose purpose) = 0;
  /// Waits until no gather that has been started reads the shards.
  virtual void settle() = 0;
};

/// Who holds the gradients. Hooks as in DataParallel.
class ZeroGradients {
 public:
  virtual ~ZeroGradients() = default;
  virtual void attach() = 0;
  virtual void start_step() = 0;
  virtual void needed(size_t unit) = 0;
  virtual void ready(size_t unit, bool last) = 0;
  virtual void finish() = 0;
  virtual DataParallel::Overlap overlap() const = 0;
};

std::unique_ptr<ZeroWeights> make_whole_weights(ZeroState& state);
std::unique_ptr<ZeroWeights> make_sharded_weights(ZeroState& state);
std::unique_ptr<ZeroGradients> make_whole_gradients(ZeroState& state);
std::unique_ptr<ZeroGradients> make_sharded_gradients(ZeroState& state);

}  // namespace tutti::train
