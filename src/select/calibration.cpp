#include "select/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "base/shallow_json.hpp"
#include "exec/store_choice.hpp"
#include "select/plausible.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;

constexpr double kOverhead = 40e-9;       // of a message beside its cache line: 250 ns where the line takes 210 (table)
constexpr double kTableCache = 36 << 20;  // bytes: where the table's lengths were measured that depend on the cache

/// Where a line from `sizes` with `values` first lies at or below `other`; 0: nowhere.
double crossing(const Calibration::Times& values, const Calibration::Times& other) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > other[i]) continue;
    const auto size = static_cast<double>(Calibration::kSizes[i]);
    if (i == 0) return size;
    const double before = std::log(values[i - 1] / other[i - 1]), after = std::log(values[i] / other[i]);
    const auto last = static_cast<double>(Calibration::kSizes[i - 1]);
    return last * std::pow(size / last, before / (before - after));
  }
  return 0;
}

constexpr double kClearly = 0.93;  // of the other's time: less is no noise

/// The way to copy of this size: the first, unless another one is clearly faster.
uint32_t best_way(const Calibration& m, size_t size) {
  size_t best = 0;
  for (size_t way = 1; way < m.read.size(); ++way) {
    if (m.read[way][size] < m.read[best][size] && m.read[way][size] < kClearly * m.read[0][size]) best = way;
  }
  return static_cast<uint32_t>(best + 1);
}

/// Seconds to hand over a message of kSizes[i] through staging memory and to fold it there.
double staged_fold(const Calibration& m, size_t i) { return staged(m, i) + std::max(0.0, m.fold[i] - m.read[0][i]); }

/// Is a block that the kernel reads in tiles, and that is folded tile by tile, handed over clearly later than a staged
/// one?
bool slow_tiles(const Calibration& m) {
  static_assert(Calibration::kSizes[2] * 2 == Calibration::kTiled && Calibration::kTiled * 2 == Calibration::kSizes[3]);
  const double best = *std::min_element(m.tiled.begin(), m.tiled.end());
  return best > 0 && std::sqrt(staged_fold(m, 2) * staged_fold(m, 3)) < kClearly * best;
}

void take_caches(const Calibration& m, MachineConstants& constants) {
  constexpr uint64_t kNever = uint64_t{1} << 60;  // bytes
  const MachineConstants table;
  if (m.caches.last > 0) {
    constants.last_caches = m.caches.lasts;
    // The same part of the cache as in the table.
    const auto part = [&](uint64_t bytes) {
      const double of_cache = static_cast<double>(bytes) / kTableCache;
      return static_cast<uint64_t>(of_cache * static_cast<double>(m.caches.last));
    };
    constants.nontemporal_from = part(table.nontemporal_from);
    constants.nontemporal_all_reduce_from = part(table.nontemporal_all_reduce_from);
  }
  if (m.beyond_stored > 0 && m.beyond_streamed >= m.beyond_stored) {
    constants.nontemporal_from = constants.nontemporal_all_reduce_from = kNever;
  }
  const auto best = std::min_element(m.tiled.begin(), m.tiled.end());
  if (*best > 0) constants.cma_tiles = Calibration::kTiles[static_cast<size_t>(best - m.tiled.begin())];
}

}  // namespace

bool stores_past(const Calibration& m, size_t i) {
  return exec::StoreChoice::pays(m.write[i] / static_cast<double>(Calibration::kSizes[i]));
}

double fastest_copy(const Calibration& m) {
  double fastest = 0;
  for (const auto* times : {&m.write, &m.write_past, &m.read_past, &m.read[0], &m.read[1], &m.read[2], &m.kernel}) {
    for (size_t i = 0; i < times->size(); ++i) {
      if ((*times)[i] > 0) fastest = std::max(fastest, static_cast<double>(Calibration::kSizes[i]) / (*times)[i]);
    }
  }
  return fastest;
}

double staged(const Calibration& m, size_t i) {
  return stores_past(m, i) ? m.write_past[i] + m.read_past[i] : m.write[i] + m.read[0][i];
}

Calibration best_of(const Calibration& a, const Calibration& b) {
  Calibration best = a;
  const auto take = [](double& value, double other) {  // 0: it was not possible
    if (other > 0 && (value <= 0 || other < value)) value = other;
  };
  const auto take_all = [&](auto& values, const auto& others) {
    for (size_t i = 0; i < values.size(); ++i) take(values[i], others[i]);
  };
  for (double Calibration::*const value : {&Calibration::near_line, &Calibration::far_line, &Calibration::thread_switch,
                                           &Calibration::beyond_stored, &Calibration::beyond_streamed}) {
    take(best.*value, b.*value);
  }
  using C = Calibration;
  for (C::Times C::*const times :
       {&C::write, &C::write_past, &C::read_past, &C::both, &C::kernel, &C::fold, &C::stored, &C::streamed}) {
    take_all(best.*times, b.*times);
  }
  for (size_t way = 0; way < C::kWays; ++way) take_all(best.read[way], b.read[way]);
  take_all(best.tiled, b.tiled);
  best.took += b.took;
  best.looks += b.looks;
  return best;
}

std::string implausible(const Calibration& m) {
  if (!kLineSeconds.hold(m.near_line) || !kLineSeconds.hold(m.far_line)) {
    return fmt::format("a cache line's way of {:.0f} and {:.0f} ns", m.near_line * 1e9, m.far_line * 1e9);
  }
  if (!kSwitchSeconds.hold(m.thread_switch))
    return fmt::format("a switch of threads in {:.1f} us", m.thread_switch * 1e6);
  for (const auto* times : {&m.write, &m.write_past, &m.read_past, &m.both, &m.read[0], &m.read[1], &m.read[2], &m.fold,
                            &m.stored, &m.streamed}) {
    for (size_t i = 0; i < times->size(); ++i) {
      const double rate = static_cast<double>(Calibration::kSizes[i]) / (*times)[i];
      if (!kCopyRate.hold(rate))
        return fmt::format("copies of {} bytes at {:.2g} GB/s", Calibration::kSizes[i], rate / 1e9);
      // A longer copy takes longer.
      if (i > 0 && (*times)[i] < (*times)[i - 1])
        return fmt::format("{} bytes copied faster than fewer", Calibration::kSizes[i]);
    }
  }
  constexpr Limits kBeyond{2e-12, 10e-9};  // seconds a byte
  for (const double each : {m.beyond_stored, m.beyond_streamed}) {
    if (each != 0 && !kBeyond.hold(each)) return fmt::format("copies beyond the caches at {:.2g} GB/s", 1e-9 / each);
  }
  if (!Limits{0, 1}.hold(m.took)) return fmt::format("a calibration of {:.2g} s", m.took);
  return "";
}

void apply(const Calibration& m, MachineConstants& constants) {
  constexpr size_t kLong = 2;  // 512 KiB: longer than a message, so that the latency is small beside it
  const auto bytes = static_cast<double>(Calibration::kSizes[kLong]);
  constants.shm_alpha = constants.local_alpha = m.far_line + kOverhead;
  // Of a staged message each core copies twice: what it sends to staging memory, and what comes out of the other's.
  constants.shm_beta = staged(m, kLong) / bytes;
  constants.local_beta = m.read[0][kLong] / bytes;
  constants.fold_gamma = std::max(0.0, m.fold[kLong] - m.read[0][kLong]) / bytes;
  constants.context_switch = m.thread_switch;
  take_caches(m, constants);
  constants.copy_short = best_way(m, 0);
  constants.copy_middle = best_way(m, 1);
  // Not copy_long: rep movsb, the best of 2 MiB in the caches, made copies of 64 MiB 1.05 to 1.2 times as long.
}

LengthShifts shifts_of(const Calibration& m) {
  LengthShifts shifts;
  const auto shift = [](double times) {
    return std::clamp(static_cast<int>(std::lround(std::log2(times))), -LengthShifts::kMax, LengthShifts::kMax);
  };
  const MachineConstants table;
  if (*std::min_element(m.kernel.begin(), m.kernel.end()) > 0) {  // else not permitted: nothing is known
    Calibration::Times through_staging;
    for (size_t i = 0; i < through_staging.size(); ++i) through_staging[i] = staged(m, i);
    const double from = crossing(m.kernel, through_staging);
    shifts.no_cma = from <= 0;
    if (from > 0) shifts.cma = shift(from / static_cast<double>(table.cma_transfer_from));
    shifts.no_cma_folds = slow_tiles(m);
  }
  constexpr size_t kMiddle = 1;
  const double copied = (m.far_line + kOverhead) * static_cast<double>(Calibration::kSizes[kMiddle]) / m.write[kMiddle];
  shifts.wait = shift(copied / (table.shm_alpha / table.shm_beta));
  if (m.caches.last > 0) {
    const auto all = static_cast<double>(m.caches.last * m.caches.lasts);
    shifts.caches = shift(all / kTableCache);
  }
  return shifts;
}

std::string to_text(const Calibration& m) {
  const json page = {{"format", kCalibrationFormat},
                     {"near_line", m.near_line},
                     {"far_line", m.far_line},
                     {"write", m.write},
                     {"write_past", m.write_past},
                     {"read_past", m.read_past},
                     {"both", m.both},
                     {"read", m.read},
                     {"kernel", m.kernel},
                     {"fold", m.fold},
                     {"stored", m.stored},
                     {"streamed", m.streamed},
                     {"tiled", m.tiled},
                     {"thread_switch", m.thread_switch},
                     {"caches", {m.caches.own, m.caches.last, m.caches.lasts}},
                     {"beyond", {m.beyond_stored, m.beyond_streamed}},
                     {"took", m.took},
                     {"looks", m.looks}};
  return page.dump() + "\n";
}

std::optional<Calibration> parse_calibration(const std::string& text) {
  try {
    const json page = parse_shallow_json(text);
    if (page.at("format") != kCalibrationFormat) return {};
    const auto times = [&](const char* name) { return page.at(name).get<Calibration::Times>(); };
    const json &caches = page.at("caches"), &beyond = page.at("beyond");
    return Calibration{.near_line = page.at("near_line"),
                       .far_line = page.at("far_line"),
                       .write = times("write"),
                       .write_past = times("write_past"),
                       .read_past = times("read_past"),
                       .both = times("both"),
                       .read = page.at("read").get<decltype(Calibration::read)>(),
                       .kernel = times("kernel"),
                       .fold = times("fold"),
                       .stored = times("stored"),
                       .streamed = times("streamed"),
                       .tiled = page.at("tiled").get<decltype(Calibration::tiled)>(),
                       .thread_switch = page.at("thread_switch"),
                       .caches = {whole_number(caches.at(0)), whole_number(caches.at(1)), whole_number(caches.at(2))},
                       .beyond_stored = beyond.at(0),
                       .beyond_streamed = beyond.at(1),
                       .took = page.at("took"),
                       .looks = whole_number(page.at("looks"))};
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tutti::select
