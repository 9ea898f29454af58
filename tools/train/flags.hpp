// The flags of `tutti train`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/train/progress.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::tools {

struct TrainFlags {
  int processes = 0, steps = 600;
  bool launched = false;
  std::string text, data_parallel = "ddp", type = "f32", wire = "f32", cp_mode = "ring", schedule = "1f1b";
  int zero = 0;
  bool bf16 = false, keep_gathered = false, resume = false;
  std::string save;
  int save_every = 0;
  double snapshot_every = 2;  // seconds
  int restarts = 0, min_ranks = 0;
  double notice = 30;  // seconds
  std::vector<std::string> traces;
  double pace = 0;                       // milliseconds
  double bucket = 25, first_bucket = 1;  // MiB
  int dp = 0;                            // 0: what the other axes leave
  train::TrainOptions options;
  ProgressOptions progress;
};

void add_flags(CLI::App& command, TrainFlags& flags);
/// Completes flags.options, but for dp. Throws Error(InvalidArgument) for flags that exclude each other, and for those
/// that would have no effect.
void read_flags(const CLI::App& command, TrainFlags& flags);
/// The options on so many ranks.
train::TrainOptions options_for(const TrainFlags& flags, int ranks);
/// Before any rank is started, and once: that the checkpoints' folder and all output files can be used.
void check_files(const TrainFlags& flags);
/// Before this command starts `ranks` ranks: what else they would each complain of.
void check_run(const TrainFlags& flags, int ranks);
/// The same for each smaller number that --min-ranks allows.
void check_fewer(const TrainFlags& flags);

}  // namespace tutti::tools
