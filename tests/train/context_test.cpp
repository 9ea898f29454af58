// Context parallelism: the same attention, the same model, the stated traffic, and 1/c of the memory.
#include <gtest/gtest.h>

#include <random>

#include "train/curves.hpp"

namespace tutti::train {
namespace {

constexpr size_t kSequences = 2, kHeads = 4, kWidth = 6, kLength = 24, kRow = kHeads * kWidth;

std::vector<float> noise(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Result {
  std::vector<float> out, d_qkv;
};

/// Attention of one rank's tokens, forward and backward.
Result attend(Attention& attention, size_t length, const std::vector<float>& qkv, const std::vector<float>& d_out) {
  const auto device = make_host_device();
  Ledger ledger(*device);
  const MicroBatch batch{.sequences = kSequences, .length = length};
  const Call call{ledger, batch, nullptr};
  const auto uploaded = [&](const std::vector<float>& values) {
    Tensor made = call.make(values.size());
    device->upload(made->f32(), values.data(), made->bytes());
    return made;
  };
  const Tensor in = uploaded(qkv);
  std::unique_ptr<Record> record;
  const Tensor out = attention.forward(call, in, record);
  const Tensor d_in = attention.backward(call, *record, in, uploaded(d_out));
  const auto list = [](const Tensor& t) { return std::vector<float>(t->f32(), t->f32() + t->count()); };
  return {list(out), list(d_in)};
}

/// The rows of `positions` in every sequence.
std::vector<float> rows_at(const std::vector<float>& whole, const std::vector<int32_t>& positions, size_t columns) {
  std::vector<float> rows;
  for (size_t s = 0; s < kSequences; ++s) {
    for (const int32_t position : positions) {
      const auto first =
          whole.begin() + static_cast<ptrdiff_t>((s * kLength + static_cast<size_t>(position)) * columns);
      rows.insert(rows.end(), first, first + static_cast<ptrdiff_t>(columns));
    }
  }
  return rows;
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 2e-5f) << i;
}

class ContextAttention : public testing::TestWithParam<ContextMode> {
 protected:
  /// Traffic of one rank's forward and backward.
  Counters compare_with_whole(int ranks) {
    const std::vector<float> qkv = noise(kSequences * kLength * 3 * kRow, 1), d_out = noise(qkv.size() / 3, 2);
    const Result whole = attend(*make_causal_attention(kHeads, kWidth), kLength, qkv, d_out);
    Counters traffic;
    run_world(ranks, [&](Communicator& comm) {
      Counters counters;
      Collectives cp(comm.split(0, comm.rank()), counters);
      Stream stream;
      const auto attention = GetParam() == ContextMode::Ring ? make_ring_attention(kHeads, kWidth, cp, stream)
                                                             : make_ulysses_attention(kHeads, kWidth, cp);
      const auto positions = context_positions(GetParam(), kLength, comm.rank(), ranks);
      const Result part =
          attend(*attention, positions.size(), rows_at(qkv, positions, 3 * kRow), rows_at(d_out, positions, kRow));
      expect_near(part.out, rows_at(whole.out, positions, kRow));
      expect_near(part.d_qkv, rows_at(whole.d_qkv, positions, 3 * kRow));
      if (comm.rank() == 0) traffic = counters;
    });
    return traffic;
  }

  Curve curve(int cp, int tp = 1, int dp = 1, bool sequence_parallel = false) {
    TrainOptions options = small_gpt();
    options.mesh.cp = cp;
    options.mesh.tp = tp;
    options.mesh.dp = dp;
    options.context = GetParam();
    options.sequence_parallel = sequence_parallel;
    return curve_of(options);
  }
};

const Curve& one_process() {
  static const Curve kCurve = curve_of(small_gpt());
  return kCurve;
}

TEST_P(ContextAttention, EqualsFullAttention) {
  for (const int ranks : {2, 4}) {
    const Counters traffic = compare_with_whole(ranks);
    const double n = ranks, mine = 4.0 * kSequences * kLength / n * kRow;  // bytes of this rank's tokens
    const double sent = GetParam() == ContextMode::Ring ? 6 * (n - 1) * mine : 2 * 4 * (n - 1) / n * mine;
    EXPECT_DOUBLE_EQ(traffic[Purpose::ContextAxis].sent, sent);
  }
  if (GetParam() == ContextMode::Ring) compare_with_whole(3);
}

TEST_P(ContextAttention, IsOneProcess) {
  for (const int cp : {2, 4}) expect_same_curve(curve(cp), one_process());
}

TEST_P(ContextAttention, WithOtherKindsIsOneProcess) {
  expect_same_curve(curve(2, 1, 2), one_process());
  expect_same_curve(curve(2, 2), one_process());
  expect_same_curve(curve(2, 2, 1, true), one_process());
}

/// Bytes of activations that a block holds between forward and backward, and the most that it held.
std::pair<size_t, size_t> memory_of_block(ContextMode mode, int ranks) {
  std::pair<size_t, size_t> bytes;
  const GptConfig config{.layers = 1, .width = kRow, .heads = kHeads, .length = 64};
  run_world(ranks, [&](Communicator& comm) {
    Counters counters;
    Collectives cp(comm.split(0, comm.rank()), counters);
    Stream stream;
    GptParts parts;
    parts.attention = [&](size_t heads, size_t width) {
      return mode == ContextMode::Ring ? make_ring_attention(heads, width, cp, stream)
                                       : make_ulysses_attention(heads, width, cp);
    };
    const auto device = make_host_device();
    Ledger ledger(*device);
    const auto block = make_block(config, {}, 0, parts);
    const std::vector<float> weights = initial_values(block->layout(), 1);
    const MicroBatch batch{.sequences = kSequences, .length = config.length / static_cast<size_t>(ranks)};
    const Call call{ledger, batch, weights.data()};
    Tensor x = call.make(block->input_count(batch.tokens_count()));
    device->zero(x->f32(), x->bytes());
    std::unique_ptr<Record> record;
    const Tensor y = block->forward(call, x, record);
    if (comm.rank() == 0) bytes.first = ledger.held(Kind::Activations) - y->bytes();
    block->backward_input(call, *record, y);
    if (comm.rank() == 0) bytes.second = ledger.peak(Kind::Activations);
  });
  return bytes;
}

TEST_P(ContextAttention, HoldsItsShareOfTheActivations) {
  const size_t tokens = kSequences * 64;
  const size_t attention = GetParam() == ContextMode::Ring ? tokens * kHeads  // the logarithms of the sums
                                                           : tokens * (3 * kRow + kHeads * 64);
  const size_t kept = 4 * ((2 + 2 + 12) * tokens * kRow + 4 * tokens + attention);
  const size_t most = memory_of_block(GetParam(), 1).second;
  for (const size_t ranks : {2, 4}) {
    const auto [held, peak] = memory_of_block(GetParam(), static_cast<int>(ranks));
    EXPECT_EQ(held, kept / ranks);
    // One rank alone needs no buffers to exchange: 6 of them in the ring (two blocks and three of gradients).
    EXPECT_LE(peak, most / ranks + 6 * 4 * 2 * tokens * kRow / ranks);
    RecordProperty("peak_of_" + std::to_string(ranks), std::to_string(peak) + " of " + std::to_string(most));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ContextAttention, testing::Values(ContextMode::Ring, ContextMode::Ulysses),
                         [](const auto& of) { return of.param == ContextMode::Ring ? "Ring" : "Ulysses"; });

TEST(ContextPositions, ZigZagGivesEveryRankTheSameWork) {
  std::vector<int64_t> work;
  for (int rank = 0; rank < 4; ++rank) {
    work.push_back(0);
    for (const int32_t position : context_positions(ContextMode::Ring, 32, rank, 4)) work.back() += position + 1;
  }
  EXPECT_EQ(work, std::vector<int64_t>(4, 32 * 33 / 2 / 4));
}

TEST(ContextPositions, ErrorsSayWhatDivides) {
  TrainOptions options = small_gpt();
  options.mesh.cp = 3;
  EXPECT_NE(refusal(options).find("2 x cp (6) does not divide the length of a sequence (32)"), std::string::npos);
  options.context = ContextMode::Ulysses;
  options.model.length = 33;
  EXPECT_NE(refusal(options).find("cp (3) does not divide the heads of a rank (4); what does: 1, 2, 4"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::train
