// Context parallelism for attention of one's own: causal attention of a sequence that is spread over all ranks, by ring
// and by Ulysses, beside the same attention of the whole sequence on one rank.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tutti/train/attention.hpp"

using namespace tutti::train;
constexpr size_t kHeads = 12, kWidth = 4, kRow = kHeads * kWidth;
/// The outputs at `positions` of one sequence, and the gradients by q, k and v there of ½ Σ outputs².
std::vector<float> attend(Ledger& ledger, Attention& attention, const std::vector<int32_t>& positions) {
  const MicroBatch batch{.sequences = 1, .length = positions.size()};
  const Call call{ledger, batch, nullptr};  // attention has no weights
  std::vector<float> values;
  for (const int32_t position : positions) {
    for (size_t i = 0; i < 3 * kRow; ++i)
      values.push_back(std::sin(static_cast<float>(position) * 0.7f + static_cast<float>(i * i)));
  }
  const Tensor qkv = call.make(values.size());
  ledger.device().upload(qkv->f32(), values.data(), qkv->bytes());
  std::unique_ptr<Record> record;
  const Tensor out = attention.forward(call, qkv, record);
  const Tensor d_qkv = attention.backward(call, *record, qkv, out);
  std::vector<float> result;
  for (size_t row = 0; row < positions.size(); ++row) {
    for (const auto& [tensor, columns] : {std::pair(out, kRow), std::pair(d_qkv, 3 * kRow)}) {
      std::vector<float> part(columns);
      ledger.device().download(part.data(), tensor->f32() + row * columns, columns * sizeof(float));
      result.insert(result.end(), part.begin(), part.end());
    }
  }
  return result;
}
int main() try {
  auto world = tutti::Communicator::from_environment();
  Counters counters;
  Collectives cp(world.split(0, world.rank()), counters);
  const auto device = make_host_device();
  Ledger ledger(*device);
  tutti::Stream stream;  // the ring's sends and receives run on it, while attention computes
  const size_t length = 8 * static_cast<size_t>(cp.size());
  const auto whole =
      attend(ledger, *make_causal_attention(kHeads, kWidth), context_positions(ContextMode::Ulysses, length, 0, 1));
  float most = 0;
  for (const ContextMode mode : {ContextMode::Ring, ContextMode::Ulysses}) {
    const auto positions = context_positions(mode, length, cp.rank(), cp.size());
    const auto attention = mode == ContextMode::Ring ? make_ring_attention(kHeads, kWidth, cp, stream)
                                                     : make_ulysses_attention(kHeads, kWidth, cp);
    const auto part = attend(ledger, *attention, positions);
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t row = static_cast<size_t>(positions[i / (4 * kRow)]);
      most = std::fmax(most, std::fabs(part[i] - whole[row * 4 * kRow + i % (4 * kRow)]));
    }
  }
  if (world.rank() == 0) std::printf("%d ranks: context %s\n", cp.size(), most < 1e-4f ? "agrees" : "differs");
} catch (const tutti::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
