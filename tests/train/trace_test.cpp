// Traces of real steps: they have each computation and each call that the mode must make, on all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

/// The third step: the second one learns the algorithms.
Timeline traced(const TrainOptions& options) {
  Timeline timeline;
  run_world(static_cast<int>(options.mesh.ranks()), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    trainer.step();
    trainer.rehearse_step();
    StepReport report;
    const Timeline mine = trainer.trace_step(report);
    EXPECT_EQ(report.step, 3);
    trainer.step();  // nothing records any more
    EXPECT_EQ(trainer.counters().recorder, nullptr);
    if (comm.rank() == 0) timeline = mine;
  });
  return timeline;
}

TrainOptions two_layers() {
  TrainOptions options = small_gpt();
  options.model.layers = 2;
  return options;
}
constexpr size_t kUnits = 4;  // embedding, two blocks, head

size_t count(const RankTimeline& rank, Work work) {
  return static_cast<size_t>(
      std::count_if(rank.work.begin(), rank.work.end(), [&](const WorkSpan& span) { return span.work == work; }));
}

std::vector<CallSpan> calls(const RankTimeline& rank, Purpose purpose, const std::string& collective) {
  std::vector<CallSpan> found;
  std::copy_if(rank.calls.begin(), rank.calls.end(), std::back_inserter(found),
               [&](const CallSpan& call) { return call.purpose == purpose && call.collective == collective; });
  return found;
}

/// Everything ends after it begins, and each call has an algorithm.
void expect_sound(const Timeline& timeline, size_t ranks) {
  ASSERT_EQ(timeline.ranks.size(), ranks);
  for (const RankTimeline& rank : timeline.ranks) {
    for (const WorkSpan& work : rank.work) EXPECT_LE(work.start, work.end);
    for (const WaitSpan& wait : rank.waits) EXPECT_LE(wait.start, wait.end);
    for (const CallSpan& call : rank.calls) {
      EXPECT_LE(call.start, call.end) << call.collective;
      EXPECT_GT(call.end, 0) << call.collective;
      EXPECT_NE(call.algorithm, "") << call.collective << " for " << name_of(call.purpose);
      EXPECT_GT(call.ranks, 1);
    }
    EXPECT_EQ(count(rank, Work::Optimizer), 1u);
  }
}

TEST(StepTrace, OfDdpHasEachBucket) {
  TrainOptions options = two_layers();
  options.mesh.dp = 2;
  options.micro_batches = 2;
  options.data_parallel.first_bucket = options.data_parallel.bucket = size_t{32} << 10;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 2);
  EXPECT_EQ(timeline.title, "Step 3: DDP over 2 replicas, 2 micro-batches");
  for (const RankTimeline& rank : timeline.ranks) {
    EXPECT_EQ(rank.units, (std::vector<std::string>{"embedding", "block.0", "block.1", "head"}));
    EXPECT_EQ(count(rank, Work::Forward), 2 * kUnits);
    EXPECT_EQ(count(rank, Work::Backward), 2 * kUnits);
    EXPECT_EQ(count(rank, Work::Recompute), 0u);
    EXPECT_EQ(rank.slots.size(), 4u);
    const std::vector<CallSpan> sent = calls(rank, Purpose::Gradients, "all_reduce");
    size_t bytes = 0;
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i].cargo.bucket, static_cast<int>(i));
      EXPECT_EQ(sent[i].communicator, "replicas");
      EXPECT_GE(sent[i].start, rank.slots[2].end);  // no_sync: the last micro-batch's backward pass sends
      bytes += sent[i].bytes;
    }
    EXPECT_GT(sent.size(), 2u);
    EXPECT_EQ(bytes % 4, 0u);
    EXPECT_GT(bytes, 4 * 2 * 12u * 32 * 32);  // two blocks' matrices
    EXPECT_FALSE(calls(rank, Purpose::Loss, "all_reduce").empty());
  }
}

TEST(StepTrace, OfZero3GathersEachUnitTwiceAndScattersItOnce) {
  TrainOptions options = two_layers();
  options.mesh.dp = 2;
  options.micro_batches = 2;
  options.data_parallel.mode = DataParallelMode::Zero3;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 2);
  for (const RankTimeline& rank : timeline.ranks) {
    const auto gathered = calls(rank, Purpose::Parameters, "all_gather");
    const auto scattered = calls(rank, Purpose::Gradients, "reduce_scatter");
    EXPECT_EQ(gathered.size(), 2 * 2 * kUnits);
    EXPECT_EQ(scattered.size(), 2 * kUnits);
    for (int unit = 0; unit < static_cast<int>(kUnits); ++unit) {
      const auto is_its = [&](const CallSpan& call) { return call.cargo.unit == unit; };
      EXPECT_EQ(std::count_if(gathered.begin(), gathered.end(), is_its), 2 * 2);
      EXPECT_EQ(std::count_if(scattered.begin(), scattered.end(), is_its), 2);
    }
    EXPECT_TRUE(std::any_of(rank.waits.begin(), rank.waits.end(),
                            [](const WaitSpan& wait) { return wait.purpose == Purpose::Parameters; }));
  }
}

TEST(StepTrace, OfZero1HasTheGathersThatOutlastTheStep) {
  TrainOptions options = two_layers();
  options.mesh.dp = 2;
  options.data_parallel.mode = DataParallelMode::Zero1;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 2);
  for (const RankTimeline& rank : timeline.ranks) {
    EXPECT_EQ(calls(rank, Purpose::Parameters, "all_gather").size(), kUnits);
    EXPECT_EQ(calls(rank, Purpose::Gradients, "reduce_scatter").size(), kUnits);
  }
}

TEST(StepTrace, OfTensorParallelismHasFourAllReducesABlock) {
  TrainOptions options = two_layers();
  options.mesh.tp = 2;
  options.micro_batches = 2;
  options.checkpoint_activations = false;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 2);
  for (const RankTimeline& rank : timeline.ranks) {
    const auto summed = calls(rank, Purpose::TensorAxis, "all_reduce");
    for (const int block : {1, 2}) {
      for (const int micro_batch : {0, 1}) {
        EXPECT_EQ(std::count_if(summed.begin(), summed.end(),
                                [&](const CallSpan& call) {
                                  return call.cargo.unit == block && call.cargo.micro_batch == micro_batch;
                                }),
                  4);
      }
    }
    for (const CallSpan& call : summed) {  // a call that blocks is a wait of the same length
      EXPECT_TRUE(std::any_of(rank.waits.begin(), rank.waits.end(), [&](const WaitSpan& wait) {
        return wait.purpose == Purpose::TensorAxis && wait.start == call.start && wait.end == call.end;
      }));
    }
  }
}

TEST(StepTrace, OfActivationCheckpointingRunsForwardAgain) {
  TrainOptions options = two_layers();
  options.checkpoint_activations = true;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 1);
  EXPECT_EQ(count(timeline.ranks[0], Work::Recompute), kUnits);
  EXPECT_EQ(timeline.title, "Step 3: activation checkpointing");
}

TEST(StepTrace, OfRingAttentionHasItsHops) {
  TrainOptions options = two_layers();
  options.mesh.cp = 4;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 4);
  for (const RankTimeline& rank : timeline.ranks) {
    const auto hops = calls(rank, Purpose::ContextAxis, "send_receive");
    EXPECT_EQ(hops.size(), 2 * (3 + 5u));  // of two blocks. Backward, the keys' gradients take two hops more
    for (const CallSpan& call : hops) EXPECT_TRUE(call.cargo.unit == 1 || call.cargo.unit == 2);
  }
}

TEST(StepTrace, OfAPipelineHasItsMessagesAndReplicas) {
  TrainOptions options = two_layers();
  options.mesh = {.dp = 2, .pp = 2};
  options.micro_batches = 4;
  options.pipeline.schedule = ScheduleKind::ZeroBubble;
  const Timeline timeline = traced(options);
  expect_sound(timeline, 4);
  EXPECT_EQ(timeline.ranks[3].label, "stage 1, dp 1");
  for (size_t i = 0; i < 4; ++i) {
    const RankTimeline& rank = timeline.ranks[i];
    const bool last = i % 2 == 1;
    const auto sent = calls(rank, Purpose::PipelineAxis, "send");
    const auto received = calls(rank, Purpose::PipelineAxis, "receive");
    ASSERT_EQ(sent.size(), 4u);
    ASSERT_EQ(received.size(), 4u);
    std::set<int> micro_batches;
    for (const CallSpan& call : sent) {
      EXPECT_EQ(call.communicator, last ? "gradients" : "activations");
      EXPECT_EQ(call.bytes, 4u * 32 * 32);  // a sequence of 32 tokens, width 32, f32
      micro_batches.insert(call.cargo.micro_batch);
    }
    EXPECT_EQ(micro_batches, (std::set<int>{0, 1, 2, 3}));
    EXPECT_EQ(count(rank, Work::BackwardWeight), 4 * rank.units.size());
    EXPECT_EQ(count(rank, Work::BackwardInput), 4 * rank.units.size());
    EXPECT_FALSE(calls(rank, Purpose::Gradients, "all_reduce").empty());
  }
}

TEST(StepTrace, HasNoAlgorithmsThatWereNotLearnt) {
  TrainOptions options = two_layers();
  options.mesh.dp = 2;
  run_world(2, [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    StepReport report;
    const Timeline timeline = trainer.trace_step(report);
    for (const CallSpan& call : timeline.ranks[0].calls) EXPECT_EQ(call.algorithm, "");
    EXPECT_FALSE(timeline.ranks[0].calls.empty());
  });
}

}  // namespace
}  // namespace tutti::train
