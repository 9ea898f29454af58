#include "tools/sim/core_costs.hpp"

#include <algorithm>
#include <cmath>

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

/// How much of `bytes` bytes, which all ranks use again and again, no cache holds: 0 to 1.
double part_beyond(const Calibration& measured, const Footprint& footprint, double bytes) {
  constexpr double kAllIn = 0.6, kNoneIn = 1.4;  // times the caches
  if (measured.caches.last == 0 || bytes <= 0) return 0;
  const auto users = std::min<uint64_t>(static_cast<uint64_t>(footprint.cores), measured.caches.lasts);
  const auto caches = static_cast<double>(measured.caches.last * users);
  return part_of(bytes, kAllIn * caches, kNoneIn * caches);
}

}  // namespace

void refine(const Calibration& measured, const Footprint& footprint, sim::WorkCosts& costs) {
  const auto in = static_cast<double>(footprint.in), out = static_cast<double>(footprint.out);
  const double bytes = std::max(1.0, (in + out) * footprint.ranks / footprint.cores);
  const double line = measured.far_line;
  const double read = each(measured.read[0], line, bytes);
  costs.first_read = line;
  costs.copy = read;
  costs.write = each(measured.write, 0, bytes);
  // The second place is staging memory, whose slots stay in a core's cache: long messages are cut.
  const double short_bytes = std::min(bytes, kStaged);
  costs.second = std::max(0.0, each(measured.both, 0, short_bytes) - each(measured.write, 0, short_bytes));
  costs.fold = std::max(0.0, each(measured.fold, line, bytes) - read);
  // A byte's way between memory and cache. A copy by streaming stores takes two of them, one by ordinary stores a
  // third, which fetches the line that is written.
  const bool known = measured.beyond_stored > 0 && measured.beyond_streamed > 0;
  const double way = known ? std::min(measured.beyond_streamed / 2, measured.beyond_stored / 3) : kWay;
  const double kept = footprint.ranks * (footprint.streams ? in : in + out);
  const double beyond = part_beyond(measured, footprint, kept);
  costs.load = beyond * way;
  costs.store = footprint.streams ? way : 2 * beyond * way;
  if (measured.kernel[0] <= 0) return;
  const double kernel = each(measured.kernel, measured.kernel[0], bytes);
  costs.kernel = std::max(0.0, kernel + costs.load - costs.copy);
  costs.kernel_call = std::max(0.0, measured.kernel[0] - kernel * static_cast<double>(Calibration::kSizes[0]));
}

}  // namespace tutti::tools
