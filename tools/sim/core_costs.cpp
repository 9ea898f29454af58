#include "tools/sim/core_costs.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "tutti/tutti.hpp"

namespace tutti::tools {
namespace {

using select::Calibration;

constexpr double kStaged = 1 << 20;  // bytes: what a copy of 512 KiB touches

// Of a byte between memory and cache, while another core uses the memory too, where the calibration had no time to
// measure it, or the caches are too large for it.
constexpr double kWay = 1 / 45e9;  // seconds; measured on an AMD EPYC (Zen 5)

/// Of a point between two, on a logarithmic scale; 0 to 1.
double part_of(double at, double low, double high) {
  return std::clamp((std::log(at) - std::log(low)) / (std::log(high) - std::log(low)), 0.0, 1.0);
}

/// Seconds for a byte in a call that touches `bytes` bytes a core, beside `first`, which each copy takes. A measured
/// copy touched twice its own size.
double each(const Calibration::Times& times, double first, double bytes) {
  const auto rate = [&](size_t i) {
    return std::max(0.25 * times[i], times[i] - first) / static_cast<double>(Calibration::kSizes[i]);
  };
  constexpr size_t kLast = Calibration::kSizes.size() - 1;
  for (size_t i = 0; i < kLast; ++i) {
    const auto low = 2 * static_cast<double>(Calibration::kSizes[i]);
    const auto high = 2 * static_cast<double>(Calibration::kSizes[i + 1]);
    if (bytes < high) return std::lerp(rate(i), rate(i + 1), part_of(std::max(bytes, low), low, high));
  }
  return rate(kLast);
}

/// Copies into staging memory, and out of it, by the stores that ranks come to choose.
struct Staged {
  Calibration::Times write, both, read, fold;
};

Staged staged_by(const Calibration& m) {
  Staged staged{m.write, m.both, m.read[0], m.fold};
  for (size_t i = 0; i < Calibration::kSizes.size(); ++i) {
    if (!select::stores_past(m, i)) continue;
    staged.write[i] = m.write_past[i];
    staged.both[i] += m.write_past[i] - m.write[i];
    staged.read[i] = m.read_past[i];
    staged.fold[i] += m.read_past[i] - m.read[0][i];
  }
  return staged;
}

/// How much of `bytes` bytes, which are used again and again, caches of this size do not hold: 0 to 1.
double part_beyond(uint64_t caches, double bytes) {
  constexpr double kAllIn = 0.6, kNoneIn = 1.4;  // times the caches
  if (caches == 0 || bytes <= 0) return 0;
  return part_of(bytes, kAllIn * static_cast<double>(caches), kNoneIn * static_cast<double>(caches));
}

/// What a rank uses again and again.
double kept_by_a_rank(const Footprint& footprint) {
  return static_cast<double>(footprint.streams ? footprint.in : footprint.in + footprint.out);
}

}  // namespace

std::optional<double> call_seconds() {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 6, kCalls = 200;
  try {
    Communicator alone(1, Communicator::unique_id(), 0);
    std::array<char, 8> data{};
    const std::span<char> buffer(data);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTries; ++i) {
      const Clock::time_point start = Clock::now();
      for (int call = 0; call < kCalls; ++call) alone.broadcast(buffer, 0);
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / kCalls);
    }
    return best;
  } catch (const Error&) {  // as HWLOC_SYNTHETIC, which describes another machine, is no obstacle to a simulation
    return {};
  }
}

void take_memory(uint64_t cache, const Footprint& footprint, sim::WorkCosts& costs) {
  const double beyond = part_beyond(cache, kept_by_a_rank(footprint));
  costs.memory_load = beyond;
  // An ordinary store fetches the line that it writes.
  costs.memory_store = footprint.streams ? 1 : 2 * beyond;
}

void refine(const Calibration& measured, const Footprint& footprint, sim::WorkCosts& costs) {
  const auto in = static_cast<double>(footprint.in), out = static_cast<double>(footprint.out);
  const double bytes = std::max(1.0, (in + out) * footprint.ranks / footprint.cores);
  const double line = measured.far_line;
  const Staged staged = staged_by(measured);
  const double read = each(staged.read, line, bytes);
  costs.first_read = line;
  costs.copy = read;
  costs.write = each(staged.write, 0, bytes);
  // The second place is staging memory, whose slots stay in a core's cache: long messages are cut.
  const double short_bytes = std::min(bytes, kStaged);
  costs.second = std::max(0.0, each(staged.both, 0, short_bytes) - each(staged.write, 0, short_bytes));
  costs.fold = std::max(0.0, each(staged.fold, line, bytes) - read);
  // A byte's way between memory and cache. A copy by streaming stores takes two of them, one by ordinary stores a
  // third, which fetches the line that is written.
  const bool known = measured.beyond_stored > 0 && measured.beyond_streamed > 0;
  const double way = known ? std::min(measured.beyond_streamed / 2, measured.beyond_stored / 3) : kWay;
  const auto users = std::min<uint64_t>(static_cast<uint64_t>(footprint.cores), measured.caches.lasts);
  const double beyond = part_beyond(measured.caches.last * users, footprint.ranks * kept_by_a_rank(footprint));
  costs.load = beyond * way;
  costs.store = footprint.streams ? way : 2 * beyond * way;
  if (measured.kernel[0] <= 0) return;
  const double kernel = each(measured.kernel, measured.kernel[0], bytes);
  costs.kernel = std::max(0.0, kernel + costs.load - costs.copy);
  costs.kernel_call = std::max(0.0, measured.kernel[0] - kernel * static_cast<double>(Calibration::kSizes[0]));
}

}  // namespace tutti::tools
