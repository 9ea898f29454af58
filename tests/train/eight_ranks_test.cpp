// Each kind of parallelism alone over eight ranks: the curve of one process.
#include <gtest/gtest.h>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

/// Eight heads, experts and units.
TrainOptions tiny(const MeshShape& mesh, bool experts = false) {
  TrainOptions options;
  options.model = {.layers = 6, .width = 16, .heads = 8, .length = 16};
  options.batch = 8;
  options.mesh = mesh;
  if (experts) options.moe = {.experts = 8, .top_k = 2, .balance = 0.1};
  return options;
}

const Curve& one_process(bool experts) {
  static const Curve kDense = curve_of(tiny({})), kExperts = curve_of(tiny({}, true));
  return experts ? kExperts : kDense;
}

void expect_one_process(const TrainOptions& options) {
  expect_same_curve(curve_of(options), one_process(options.moe.experts > 0));
}

TEST(EightRanks, Data) {
  for (const auto mode : {DataParallelMode::Ddp, DataParallelMode::ParameterServer, DataParallelMode::Zero1,
                          DataParallelMode::Zero2, DataParallelMode::Zero3}) {
    SCOPED_TRACE(static_cast<int>(mode));
    TrainOptions options = tiny({.dp = 8});
    options.data_parallel.mode = mode;
    expect_one_process(options);
  }
}

TEST(EightRanks, Tensor) {
  expect_one_process(tiny({.tp = 8}));
  TrainOptions sequence = tiny({.tp = 8});
  sequence.sequence_parallel = true;
  expect_one_process(sequence);
}

TEST(EightRanks, Context) {
  for (const ContextMode mode : {ContextMode::Ring, ContextMode::Ulysses}) {
    TrainOptions options = tiny({.cp = 8});
    options.context = mode;
    expect_one_process(options);
  }
}

TEST(EightRanks, Experts) { expect_one_process(tiny({.ep = 8}, true)); }

TEST(EightRanks, Pipeline) {
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::ZeroBubble}) {
    TrainOptions options = tiny({.pp = 8});
    options.micro_batches = 4;
    options.pipeline.schedule = kind;
    expect_one_process(options);
  }
}

}  // namespace
}  // namespace tutti::train
