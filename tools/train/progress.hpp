// What `tutti train` prints and writes: a line for each step, the learning curve, and a summary.
#pragma once

#include <string>
#include <vector>

#include "tools/output_file.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::tools {

struct ProgressOptions {
  std::string svg, json;  ///< files; empty: none
};

/// Of rank 0.
class TrainProgress {
 public:
  /// `appends`: to the log, since an earlier run is continued. Throws Error(SystemError) if a file cannot be written;
  /// so do the others.
  TrainProgress(const ProgressOptions& options, int steps, bool appends);
  /// Once for each communicator; steps that are made again replace those before.
  void begin(train::Trainer& trainer, int ranks);
  void step(const train::StepReport& report);
  void saved(const std::string& folder, int64_t step);
  /// On all ranks: what it prints is gathered. `progress`: rank 0's.
  static void end(train::Trainer& trainer, TrainProgress* progress);

 private:
  void end(train::Trainer& trainer, const std::vector<train::ExpertLoad>& experts);
  /// Of how many steps last_bits() is the mean.
  size_t last_steps() const;
  double last_bits() const;

  int steps_;
  OutputFile svg_, json_;
  std::string title_;
  int64_t first_step_ = 1;
  std::vector<double> bits_;
  double seconds_ = 0, waiting_ = 0, busy_ = 0, hidden_ = 0;
  size_t tokens_ = 0;
};

}  // namespace tutti::tools
