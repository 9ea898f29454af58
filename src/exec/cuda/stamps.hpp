// Where a block's time goes in a call, for measurements (tests/gpu/speed): a build of the kernels of its own, with
// TUTTI_STAMPS, in which each block prints that when it has ended. In all other builds nothing of this is code.
#pragma once

#include <cstdint>

#include "exec/cuda/device.hpp"

#if defined(TUTTI_STAMPS)
#include <cstdio>
#include <type_traits>

#include "exec/cuda/clock.hpp"
#include "exec/cuda/fold_values.hpp"
#endif

namespace tutti::exec::cuda {

/// What a block's leader does: from the start of the kernel, each moment is one of these.
enum class Phase : uint32_t {
  Enter,    ///< looks at the counters, and binds the call's buffers
  Wait,     ///< for messages, credits and room; and looks for them
  Move,     ///< its threads fold, copy and store messages
  Publish,  ///< tells peers, with fences, and advances
  Leave,    ///< waits for its other threads, and ends the call
};

#if defined(TUTTI_STAMPS)

/// Of a block.
struct Stamps {
  static constexpr uint32_t kPhases = 5;
  uint64_t start, last, moves, sums[kPhases];

  TUTTI_DEVICE static Stamps& of_block() {
    TUTTI_SHARED(Stamps, stamps);
    return stamps;
  }
  /// The kernels of other types than this one are not built: they would take minutes.
  template <class T>
  static constexpr bool kBuilds = std::is_same_v<T, Plain<float>>;

  TUTTI_DEVICE static void begin() {
    if (ptx::thread_index() != 0) return;
    Stamps& stamps = of_block();
    stamps.start = stamps.last = ptx::nanoseconds();
    stamps.moves = 0;
    for (uint64_t& sum : stamps.sums) sum = 0;
  }
  /// This phase was, since the last one.
  TUTTI_DEVICE static void after(Phase phase) {
    if (ptx::thread_index() != 0) return;
    Stamps& stamps = of_block();
    const uint64_t now = ptx::nanoseconds();
    stamps.sums[static_cast<uint32_t>(phase)] += now - stamps.last;
    stamps.moves += phase == Phase::Move ? 1 : 0;
    stamps.last = now;
  }
  /// `rank`: an address that differs between ranks; `launch`: the number of the call's launch.
  TUTTI_DEVICE static void print(const void* rank, uint64_t launch) {
    if (ptx::thread_index() != 0) return;
    const Stamps& of = of_block();
    const auto word = [](uint64_t value) { return static_cast<unsigned long long>(value); };
    printf("tutti-phases %p %llu %u %llu %llu %llu %llu %llu %llu %llu\n", rank, word(launch), ptx::block_index(),
           word(of.start), word(of.moves), word(of.sums[0]), word(of.sums[1]), word(of.sums[2]), word(of.sums[3]),
           word(of.sums[4]));
  }
};

#else

struct Stamps {
  template <class T>
  static constexpr bool kBuilds = true;
  TUTTI_DEVICE static void begin() {}
  TUTTI_DEVICE static void after(Phase) {}
  TUTTI_DEVICE static void print(const void*, uint64_t) {}
};

#endif

}  // namespace tutti::exec::cuda
