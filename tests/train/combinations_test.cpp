// Kinds of parallelism together: the curve of one process, losses and gradients' norms, whatever is combined.
#include <gtest/gtest.h>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

constexpr auto kDdp = DataParallelMode::Ddp, kServer = DataParallelMode::ParameterServer,
               kZero1 = DataParallelMode::Zero1, kZero2 = DataParallelMode::Zero2, kZero3 = DataParallelMode::Zero3;

/// Two micro-batches a step; experts where `experts` says so. The batch is that of one process.
TrainOptions combined(const MeshShape& mesh, DataParallelMode mode, bool experts) {
  TrainOptions options = small_gpt();
  options.micro_batches = 2;
  options.mesh = mesh;
  options.data_parallel.mode = mode;
  options.data_parallel.first_bucket = 10 << 10;  // several buckets, although the model is small
  options.data_parallel.bucket = 64 << 10;
  if (experts) options.moe = {.experts = 4, .top_k = 2, .balance = 0.1};
  return options;
}

const Curve& one_process(bool experts) {
  static const Curve kDense = curve_of(combined({}, kDdp, false)), kExperts = curve_of(combined({}, kDdp, true));
  return experts ? kExperts : kDense;
}

void expect_one_process(const TrainOptions& options) {
  const MeshShape& m = options.mesh;
  SCOPED_TRACE(testing::Message() << "dp " << m.dp << " pp " << m.pp << " cp " << m.cp << " ep " << m.ep << " tp "
                                  << m.tp << (options.sequence_parallel ? " sp" : "") << ", mode "
                                  << static_cast<int>(options.data_parallel.mode) << ", context "
                                  << static_cast<int>(options.context) << ", " << name_of(options.pipeline.schedule));
  expect_same_curve(curve_of(options), one_process(options.moe.experts > 0));
}

class Combined : public testing::TestWithParam<DataParallelMode> {};

TEST_P(Combined, DataTensorPipeline) { expect_one_process(combined({.dp = 2, .pp = 2, .tp = 2}, GetParam(), false)); }

TEST_P(Combined, Context) {
  for (const ContextMode mode : {ContextMode::Ring, ContextMode::Ulysses}) {
    TrainOptions options = combined({.cp = 2}, GetParam(), false);
    options.context = mode;
    expect_one_process(options);
  }
}

TEST_P(Combined, Sequence) {
  TrainOptions options = combined({.dp = 2, .tp = 2}, GetParam(), false);
  options.sequence_parallel = true;
  expect_one_process(options);
}

TEST_P(Combined, Pipeline) {
  for (const ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::Interleaved, ScheduleKind::ZeroBubble}) {
    TrainOptions options = combined({.dp = 2, .pp = 2}, GetParam(), false);
    options.pipeline = {kind, kind == ScheduleKind::Interleaved ? 2 : 1};
    expect_one_process(options);
  }
}

TEST_P(Combined, PipelineAndContext) { expect_one_process(combined({.pp = 2, .cp = 2}, GetParam(), false)); }

class CombinedExperts : public Combined {};

TEST_P(CombinedExperts, Alone) {
  expect_one_process(combined({.ep = 2}, GetParam(), true));
  expect_one_process(combined({.dp = 2, .ep = 2}, GetParam(), true));
}

TEST_P(CombinedExperts, Pipeline) { expect_one_process(combined({.pp = 2, .ep = 2}, GetParam(), true)); }

// The experts' collectives run while gradients are on the way.
TEST_P(CombinedExperts, ActivationCheckpointing) {
  TrainOptions options = combined({.dp = 2, .ep = 2}, GetParam(), true);
  options.checkpoint_activations = true;
  expect_one_process(options);
}

// Clipped at each step: each parameter is counted once, although dense ones have dp x ep replicas and experts dp.
TEST_P(CombinedExperts, ClippedByTheGlobalNorm) {
  TrainOptions one = combined({}, kDdp, true), many = combined({.dp = 2, .ep = 2}, GetParam(), true);
  one.clip = many.clip = 0.1;
  expect_same_curve(curve_of(many), curve_of(one));
}

std::string mode_name(const testing::TestParamInfo<DataParallelMode>& of) {
  constexpr const char* kNames[] = {"Ddp", "Server", "Zero1", "Zero2", "Zero3"};
  return kNames[static_cast<size_t>(of.param)];
}
INSTANTIATE_TEST_SUITE_P(Modes, Combined, testing::Values(kDdp, kServer, kZero1, kZero2, kZero3), mode_name);
INSTANTIATE_TEST_SUITE_P(Modes, CombinedExperts, testing::Values(kDdp, kZero1, kZero2, kZero3), mode_name);

// Only some stages have experts, but every rank reports them all.
TEST(Combination, PipelinesReportAllExperts) {
  const auto last_report = [](const MeshShape& mesh) {
    std::vector<StepReport> reports(static_cast<size_t>(mesh.ranks()));
    run_world(mesh.ranks(), [&](Communicator& comm) {
      Trainer trainer(comm, combined(mesh, kDdp, true), sample_text());
      for (int i = 0; i < 3; ++i) reports[static_cast<size_t>(comm.rank())] = trainer.step();
    });
    for (const StepReport& report : reports) {
      EXPECT_DOUBLE_EQ(report.balance, reports[0].balance);
      EXPECT_EQ(report.imbalance, reports[0].imbalance);
    }
    return reports[0];
  };
  const StepReport one = last_report({}), six = last_report({.pp = 6}), four = last_report({.pp = 2, .ep = 2});
  EXPECT_GT(one.balance, 0);
  for (const StepReport& report : {six, four}) {
    EXPECT_NEAR(report.balance / one.balance, 1, 1e-3);
    EXPECT_NEAR(report.imbalance / one.imbalance, 1, 2e-2);
  }
}

TEST(Combination, FormulaKnowsThatExpertsHaveFewerReplicas) {
  for (const DataParallelMode mode : {kZero1, kZero2, kZero3}) {
    const TrainOptions options = combined({.dp = 2, .ep = 2}, mode, true);
    run_world(4, [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      const StateBytes formula = trainer.expected_state();
      const double uneven = 12.0 * 4 * static_cast<double>(trainer.units().size());  // see ZeroBytes
      EXPECT_NEAR(static_cast<double>(trainer.ledger().held(Kind::Weights)), formula.weights, uneven);
      EXPECT_NEAR(static_cast<double>(trainer.ledger().held(Kind::Gradients)), formula.gradients, uneven);
      EXPECT_NEAR(static_cast<double>(trainer.ledger().held(Kind::Optimizer)), formula.optimizer, uneven);
    });
  }
}

class AllCombinations : public testing::TestWithParam<std::tuple<DataParallelMode, int>> {};

/// Every mesh of up to 8 ranks whose axes have 1 or 2, with three ways to run it: a schedule, a way to attend, with and
/// without sequence parallelism and activation checkpointing.
TEST_P(AllCombinations, AreOneProcess) {
  const auto [mode, variant] = GetParam();
  const auto two = [](int mask, int bit) { return 1 + (mask >> bit) % 2; };
  for (int mask = 1; mask < 32; ++mask) {
    const MeshShape mesh{
        .dp = two(mask, 0), .pp = two(mask, 1), .cp = two(mask, 2), .ep = two(mask, 3), .tp = two(mask, 4)};
    if (mesh.ranks() > 8 || (mode == kServer && mesh.ep > 1)) continue;
    TrainOptions options = combined(mesh, mode, mesh.ep > 1);
    options.sequence_parallel = mesh.tp > 1 && variant > 0;
    options.checkpoint_activations = variant == 2;
    options.context = variant == 1 ? ContextMode::Ulysses : ContextMode::Ring;
    constexpr PipelineOptions kPipelines[] = {
        {ScheduleKind::OneFOneB, 1}, {ScheduleKind::ZeroBubble, 1}, {ScheduleKind::Interleaved, 2}};
    if (mesh.pp > 1) options.pipeline = kPipelines[variant];
    expect_one_process(options);
  }
}

INSTANTIATE_TEST_SUITE_P(Full, AllCombinations,
                         testing::Combine(testing::Values(kDdp, kServer, kZero1, kZero2, kZero3),
                                          testing::Range(0, 3)));

TEST(Refused, ExpertsOfAParameterServer) {
  EXPECT_EQ(refusal(combined({.ep = 2}, kServer, true)),
            "the parameter server knows no expert parallelism: leave out ep, or use DDP");
}

}  // namespace
}  // namespace tutti::train
