// The quick calibration: what this host's cores, caches and kernel take, measured once a boot in a few tens of
// milliseconds. It replaces the table's figures for local links where `tutti tune` has measured nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "topo/constants.hpp"
#include "topo/cores.hpp"

namespace tutti::select {

/// Seconds, each the best of a few tries; 0: it was not possible.
struct Calibration {
  static constexpr std::array<uint64_t, 4> kSizes = {4 << 10, 64 << 10, 512 << 10, 2 << 20};  ///< bytes of a copy
  using Times = std::array<double, kSizes.size()>;

  double near_line = 0;      ///< a cache line's way between the first core and the next
  double far_line = 0;       ///< and between the first core and the last
  Times write = {};          ///< a copy of data that this core wrote, to memory that another core reads
  Times read = {};           ///< a copy of data that another core wrote: of a staged message, of mapped memory
  Times kernel = {};         ///< the same by the kernel (CMA)
  Times stored = {};         ///< a copy by ordinary stores
  Times streamed = {};       ///< a copy by stores past the cache
  double thread_switch = 0;  ///< from one thread to another on a core, by sched_yield
};

/// Measures between the cores `cores` (processors), in threads of its own. Takes at most some 50 ms. None if there is
/// only one core, or if the machine was so busy that it took too long.
std::optional<Calibration> calibrate(const Cores& cores);

/// Why it cannot be right; "" if it can: figures outside what machines have, or that contradict each other.
std::string implausible(const Calibration& measured);

/// The figures that follow from it, in place of the table's: costs of local links, and of a context switch.
void apply(const Calibration& measured, MachineConstants& constants);
/// From how many times the table's lengths on blocks are read by CMA (of all-gather, all-to-all, gather, scatter and
/// transfers), as a power of two from −2 to 2: how this
/// machine's crossing of the kernel's copy with two copies compares with that of the table. Equal on all ranks, which
/// take rank 0's.
int cma_shift(const Calibration& measured);

std::string to_text(const Calibration& measured);
/// None for anything that to_text() does not write.
std::optional<Calibration> parse_calibration(const std::string& text);

/// This host's, from the file of this boot in the user's cache folder, or measured now and written there: once for all
/// processes of the user, which wait for each other, and at most three times where it is implausible. Null with
/// TUTTI_CALIBRATION=0, without a cache folder, and where it is implausible. The figures are applied to
/// machine_constants(). Once a process.
const Calibration* local_calibration();

}  // namespace tutti::select
