// The quick calibration: what this host's cores, caches and kernel take, measured twice a boot in a few tens of
// milliseconds. It replaces the table's figures for local links where `tutti tune` has measured nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "topo/caches.hpp"
#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti::select {

/// Seconds, each the best of a few tries; 0: it was not possible. Two cores, the first and the last, copy at the same
/// time, as ranks do; of both, the slower one's time.
struct Calibration {
  static constexpr std::array<uint64_t, 4> kSizes = {4 << 10, 64 << 10, 512 << 10, 2 << 20};  ///< bytes of a copy
  using Times = std::array<double, kSizes.size()>;
  static constexpr size_t kWays = 3;  ///< to copy, as CopyWay (reduce/fold.hpp) numbers them, from 1 on
  static constexpr std::array<uint64_t, 3> kTiles = {64 << 10, 256 << 10, 1 << 20};
  static constexpr uint64_t kTiled = 1 << 20;  ///< bytes that are read in such tiles

  double near_line = 0;                ///< a cache line's way between the first core and the next
  double far_line = 0;                 ///< and between the first core and the last
  Times write = {};                    ///< a copy of data that this core wrote, to memory that another core reads
  Times write_past = {};               ///< the same by stores past the cache,
  Times read_past = {};                ///< and a copy, by memcpy, of what another core stored so
  Times both = {};                     ///< the same, and at once to memory of its own
  std::array<Times, kWays> read = {};  ///< a copy of data that another core wrote, in each way to copy
  Times kernel = {};                   ///< the same by the kernel (CMA)
  Times fold = {};                     ///< a sum of floats that this core wrote and of such data
  Times stored = {};                   ///< a copy of this core's own data by ordinary stores
  Times streamed = {};                 ///< the same by stores past the cache
  std::array<double, kTiles.size()> tiled =
      {};                      ///< kTiled bytes read by the kernel in tiles, each folded from the cache
  double thread_switch = 0;    ///< from one thread to another on a core, by sched_yield
  CacheSizes caches;           ///< as the kernel tells them
  double beyond_stored = 0;    ///< for each byte copied between buffers that no cache holds
  double beyond_streamed = 0;  ///< the same by stores past the cache
  double took = 0;             ///< the calibration itself, all in all
  uint64_t looks = 1;          ///< measurements that it is the best of

  bool operator==(const Calibration&) const = default;
};

inline constexpr const char* kCalibrationFormat = "tutti-calibration 4";

/// Measures between the cores `cores` (processors), in threads of its own. Takes at most some 45 ms. None if there is
/// only one core, or if the machine was so busy that it took too long.
std::optional<Calibration> calibrate(const Cores& cores,
                                     std::chrono::nanoseconds longest = std::chrono::milliseconds(45));

/// Do ranks come to store messages of kSizes[i] past the cache (exec/store_choice.hpp)?
bool stores_past(const Calibration& measured, size_t i);

/// Bytes a second of the fastest copy of what another core wrote, or will read, whatever its length.
double fastest_copy(const Calibration& measured);

/// Seconds to hand over a message of kSizes[i] through staging memory, by the stores that ranks come to choose.
double staged(const Calibration& measured, size_t i);

/// Of each figure the better one: shared and virtual machines have slow moments, and a measurement may lie in one. Adds
/// up the looks of both.
Calibration best_of(const Calibration& a, const Calibration& b);

/// Why it cannot be right; "" if it can: figures outside what machines have, or that contradict each other.
std::string implausible(const Calibration& measured);

/// The figures that follow from it, in place of the table's, and in which ranks may differ: costs of local links and of
/// a context switch, from where on results are stored past the cache, tiles, and ways to copy.
void apply(const Calibration& measured, MachineConstants& constants);

/// Some lengths of the table must be the same on all ranks. They are multiplied by 2^shift; shifts lie between −kMax
/// and kMax, and all ranks take rank 0's.
struct LengthShifts {
  static constexpr int kMax = 2;
  /// Of the lengths from which blocks are read by CMA: there one copy by the kernel becomes faster than two copies.
  int cma = 0;
  /// The kernel's copy is never faster: no block is read by CMA, however long.
  bool no_cma = false;
  /// Blocks that are folded are not read by CMA: in tiles, each folded out of the cache, they take longer than staged.
  bool no_cma_folds = false;
  /// Of the lengths from which a copy costs more than waiting for another rank: the bytes copied while a message comes.
  int wait = 0;
  /// Of the lengths up to which a call stays in the cache: they follow the sizes of the last caches.
  int caches = 0;
};
LengthShifts shifts_of(const Calibration& measured);
/// bytes · 2^shift.
inline uint64_t shifted(uint64_t bytes, int shift) { return shift < 0 ? bytes >> -shift : bytes << shift; }

std::string to_text(const Calibration& measured);
/// None for anything that to_text() does not write.
std::optional<Calibration> parse_calibration(const std::string& text);

/// This host's, from the file of this boot in the user's cache folder, or measured now and written there: once for all
/// processes of the user, which wait for each other. The first process that comes a minute later measures a second
/// time, and of each figure the better one is kept. Where the figures are implausible, at most three times in ten
/// minutes. Null with TUTTI_CALIBRATION=0, without a cache folder, and where they are implausible. The figures are
/// applied to machine_constants(). Once a process.
const Calibration* local_calibration();

/// Why local_calibration() is null, with what to do about it; "" if it is not.
std::string why_no_calibration();

}  // namespace tutti::select
