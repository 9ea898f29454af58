// Tensor and sequence parallelism: the same model, the published traffic, and 1/t of the activations.
#include <gtest/gtest.h>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

const Curve& one_process() {
  static const Curve kCurve = curve_of(small_gpt());
  return kCurve;
}

TrainOptions split(int tp, int dp = 1, bool sequence_parallel = false) {
  TrainOptions options = small_gpt();
  options.mesh.tp = tp;
  options.mesh.dp = dp;
  options.sequence_parallel = sequence_parallel;
  return options;
}

TEST(TensorParallel, IsOneProcess) {
  for (const int tp : {2, 4}) expect_same_curve(curve_of(split(tp)), one_process());
}

TEST(TensorParallel, WithDataParallelIsOneProcess) { expect_same_curve(curve_of(split(2, 2)), one_process()); }

TEST(TensorParallel, UnevenVocabularyIsOneProcess) {
  TrainOptions one = small_gpt(), three = split(3);
  one.model.heads = three.model.heads = 3;
  one.model.width = three.model.width = 24;
  expect_same_curve(curve_of(three), curve_of(one));  // 256 entries over 3 ranks
}

TEST(SequenceParallel, IsOneProcess) {
  for (const int tp : {2, 4}) expect_same_curve(curve_of(split(tp, 1, true)), one_process());
  expect_same_curve(curve_of(split(2, 2, true)), one_process());
}

TEST(SequenceParallel, AccumulatesMicroBatches) {
  TrainOptions options = split(2, 1, true);
  options.micro_batches = 4;
  expect_same_curve(curve_of(options), one_process());
}

/// One step's traffic of rank 0.
Counters traffic(const TrainOptions& options) {
  Counters counters;
  run_world(options.mesh.ranks(), [&](Communicator& comm) {
    Trainer trainer(comm, options, sample_text());
    trainer.counters().reset();
    trainer.step();
    if (comm.rank() == 0) counters = trainer.counters();
  });
  return counters;
}

TEST(TensorParallel, TwoAllReducesALayerForwardAndTwoBackward) {
  for (const int tp : {2, 4}) {
    const TrainOptions options = split(tp);
    const Count count = traffic(options)[Purpose::TensorAxis];
    const size_t tokens = options.batch * options.model.length, layers = options.model.layers;
    // The embedding sums forward, the head backward; the loss exchanges a maximum, then two sums at once.
    EXPECT_EQ(count.calls, 4 * layers + 2 + 2);
    EXPECT_EQ(count.elements, (4 * layers + 2) * tokens * options.model.width + 3 * tokens);
    EXPECT_DOUBLE_EQ(count.sent, 2.0 * (tp - 1) / tp * 4 * static_cast<double>(count.elements));
  }
}

TEST(SequenceParallel, SendsWhatTensorParallelismSends) {
  const TrainOptions options = split(4, 1, true);
  const Counters with = traffic(options), without = traffic(split(4));
  const size_t tokens = options.batch * options.model.length, layers = options.model.layers;
  const double loss = 2.0 * 3 / 4 * 4 * 3 * static_cast<double>(tokens);  // of the loss's exchange
  EXPECT_EQ(with[Purpose::SequenceAxis].calls, 2 * (4 * layers + 2));
  EXPECT_DOUBLE_EQ(with[Purpose::SequenceAxis].sent, without[Purpose::TensorAxis].sent - loss);
  // Beside it: the gradients of norms, row-parallel biases and positions, of which each rank has computed a part.
  const size_t partial = (layers * 6 + 2 + options.model.length) * options.model.width;
  EXPECT_EQ(with[Purpose::TensorAxis].elements, 3 * tokens + partial);
}

/// Bytes of activations that a block holds between forward and backward.
size_t kept_by_block(int tp, bool sequence_parallel) {
  size_t kept = 0;
  const GptConfig config{.layers = 1, .width = 32, .heads = 4, .length = 16};
  run_world(tp, [&](Communicator& comm) {
    Counters counters;
    Collectives group(comm.split(0, comm.rank()), counters), absent;
    const ParallelContext parallel(group, sequence_parallel, absent, absent);
    const auto device = make_host_device();
    Ledger ledger(*device);
    const auto block = make_block(config, parallel, 0, {});
    const std::vector<float> weights = initial_values(block->layout(), 1);
    const MicroBatch batch{.sequences = 2, .length = config.length};
    const Call call{ledger, batch, weights.data()};
    Tensor x = call.make(block->input_count(batch.tokens_count()));
    device->zero(x->f32(), x->bytes());
    std::unique_ptr<Record> record;
    const Tensor y = block->forward(call, x, record);
    if (comm.rank() == 0) kept = ledger.held(Kind::Activations) - y->bytes();
  });
  return kept;
}

TEST(SequenceParallel, DividesActivationsOutsideTheRegions) {
  const size_t tokens = 32, width = 32, heads = 4, length = 16;
  const size_t outside = 2 * tokens * width + 4 * tokens;  // x, h, and the norms' means and deviations
  const size_t entered = 2 * tokens * width;               // what attention and MLP begin with
  const size_t divided = (3 + 1 + 4 + 4) * tokens * width  // qkv, attended, the MLP's hidden, its GELU
                         + tokens * heads * length;        // softmax
  for (const size_t t : {2, 4}) {
    EXPECT_EQ(kept_by_block(static_cast<int>(t), false), 4 * (outside + entered + divided / t));
    EXPECT_EQ(kept_by_block(static_cast<int>(t), true), 4 * (outside / t + entered + divided / t));
  }
}

TEST(TensorParallel, SaysWhatDivides) {
  EXPECT_NE(refusal(split(3)).find("tp (3) does not divide the number of heads (4); what does: 1, 2, 4"),
            std::string::npos);
  EXPECT_NE(refusal(split(1, 2, true)).find("it needs tp above 1"), std::string::npos);
  TrainOptions odd = split(4, 1, true);
  odd.model.length = 5;
  odd.batch = 1;
  EXPECT_NE(refusal(odd).find("tp (4) does not divide the tokens of a micro-batch (5)"), std::string::npos)
      << refusal(odd);
}

}  // namespace
}  // namespace tutti::train
