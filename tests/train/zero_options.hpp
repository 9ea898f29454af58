// What the tests of ZeRO train.
#pragma once

#include "tutti/train/trainer.hpp"

namespace tutti::train {

inline constexpr auto kZero1 = DataParallelMode::Zero1, kZero2 = DataParallelMode::Zero2,
                      kZero3 = DataParallelMode::Zero3;

/// An odd width and length: the parameters of no unit can be divided by 4, of most not by 2.
inline TrainOptions zero_options(int ranks, DataParallelMode mode) {
  TrainOptions options;
  options.model = {.layers = 4, .width = 21, .heads = 3, .length = 23};
  options.batch = 8;
  options.mesh.dp = ranks;
  options.data_parallel.mode = mode;
  return options;
}

}  // namespace tutti::train
