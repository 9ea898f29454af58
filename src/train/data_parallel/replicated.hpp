// What strategies share whose ranks each hold the whole state of their units: one flat buffer each for the weights, the
// gradients and the optimizer, unit after unit.
#pragma once

#include <vector>

#include "tutti/train/data_parallel.hpp"

namespace tutti::train {

class Replicated : public DataParallel {
 public:
  Replicated(const DataParallelOptions& options, Ledger& ledger, const ReplicaGroups& groups)
      : options_(options), ledger_(ledger), groups_(groups) {}

  void attach(std::span<UnitState> units) override;
  void load(size_t unit, std::span<const float> values) override;
  void read(size_t unit, std::span<float> values) override;
  void broadcast_parameters() override;
  void start_step() override;
  double square_sum() override;
  void step(const AdamStep& step) override;

 protected:
  Device& device() const { return ledger_.device(); }
  /// Replica 0's values of a buffer laid out as the weights are, to all.
  void broadcast(Span flat);
  /// True if this rank has the optimizer's state.
  virtual bool optimizes() const { return true; }

  DataParallelOptions options_;
  Ledger& ledger_;
  ReplicaGroups groups_;
  std::span<UnitState> units_;
  std::vector<size_t> first_;  // [unit]: where it begins in the flat buffers
  Buffer weights_, gradients_;
  Adam adam_;
};

std::unique_ptr<DataParallel> make_ddp(const DataParallelOptions& options, Ledger& ledger, const ReplicaGroups& groups);
std::unique_ptr<DataParallel> make_parameter_server(const DataParallelOptions& options, Ledger& ledger,
                                                    const ReplicaGroups& groups);

}  // namespace tutti::train
