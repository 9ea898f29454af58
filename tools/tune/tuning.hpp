// What tutti tune is asked for, and the measuring of it.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/cells.hpp"

namespace tutti::tools {

inline constexpr const char* kTuneCommand = "tutti tune";

struct TuneOptions {
  int ranks = 0;
  std::string device = "host";
  bool on_gpus() const { return device == "cuda"; }
  /// An algorithm is measured if the model predicts at most this many times the fastest one's time.
  double within() const { return all ? 1e300 : 2; }
  bool all = false, links_only = false, synth = false, doubtful = false;
  std::string largest = "256M";
  Sizes sizes;
  std::string output, hosts, launcher;
  std::vector<std::string> exported;
  std::string task, plans;  // of a rank that this command has started
  int threads = 1;
  bool launched = false;
};

/// Starts ranks that measure links and algorithms, job by job, and writes the profile to `path`. Goes on where an
/// interrupted run has stopped. Throws Error.
void measure_machine(const TuneOptions& options, const std::string& path);

}  // namespace tutti::tools
