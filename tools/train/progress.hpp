// What `tutti train` prints and writes: a line for each step, the learning curve, and a summary.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tutti/train/trainer.hpp"

namespace tutti::tools {

struct ProgressOptions {
  std::string svg, json;  ///< files; empty: none
};

/// Rank 0 prints; the others keep silent.
class Progress {
 public:
  /// Throws Error(SystemError) if a file cannot be written.
  Progress(const ProgressOptions& options, bool speaks, int steps);
  void begin(train::Trainer& trainer, int ranks);
  void step(const train::StepReport& report);
  void saved(const std::string& folder, int64_t step);
  void end(train::Trainer& trainer);

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<FILE, Close>;
  /// Of how many steps last_bits() is the mean.
  size_t last_steps() const;
  double last_bits() const;
  static File open(const char* flag, const std::string& path);

  bool speaks_;
  int steps_;
  File svg_, json_;
  std::string title_;
  std::vector<double> bits_;
  double seconds_ = 0, waiting_ = 0, busy_ = 0, hidden_ = 0;
  size_t tokens_ = 0;
};

}  // namespace tutti::tools
