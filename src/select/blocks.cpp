#include "select/blocks.hpp"

#include <algorithm>

#include "topo/constants.hpp"

namespace tutti::select {
namespace {

constexpr double kAsGood = 1.03;
constexpr double kLine = 2, kWholeLine = 16.0 / 15;  // bytes that travel for a byte of a message

}  // namespace

double seconds_with_blocks(const plan::Cost& cost, uint64_t bytes, uint64_t window, const Setting& setting,
                           const LineLengths& longest, uint32_t blocks) {
  const double message = cost.message.value() * static_cast<double>(std::min(bytes, window));
  const bool in_lines = message <= static_cast<double>(longest.lines);
  if (blocks == 1 && (in_lines || message <= static_cast<double>(longest.whole))) {
    const Predicted predicted = predict(cost, bytes, window, setting);
    return predicted.seconds() + ((in_lines ? kLine : kWholeLine) - 1) * predicted.bandwidth;
  }
  Setting with = setting;
  const double beta = machine_constants().cuda_block_beta / blocks;
  with.inside.beta = std::max(with.inside.beta, beta);
  with.between.beta = std::max(with.between.beta, beta);
  const uint64_t of_window = blocks == 1 ? window : std::min(window, bytes / blocks);
  const double fences = static_cast<double>(cost.rounds) * machine_constants().cuda_fence;
  return predict(cost, bytes, of_window, with).seconds() + fences;
}

uint32_t fewest_blocks(const plan::Cost& cost, uint64_t bytes, uint64_t window, const Setting& setting,
                       const LineLengths& longest, uint32_t most) {
  const auto seconds = [&](uint32_t blocks) {
    return seconds_with_blocks(cost, bytes, window, setting, longest, blocks);
  };
  double best = seconds(1);
  for (uint32_t blocks = 2; blocks <= most; ++blocks) best = std::min(best, seconds(blocks));
  uint32_t fewest = 1;
  while (fewest < most && seconds(fewest) > kAsGood * best) ++fewest;
  return fewest;
}

}  // namespace tutti::select
