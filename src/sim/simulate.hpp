// Simulates a call: the time that the programs of all ranks take on a machine. The result is a model's, not a measured
// one.
#pragma once

#include <string>

#include "sim/replay.hpp"

namespace tutti::sim {

enum class Engine : uint8_t { Fast, Fair, SimGrid };

struct SimulateOptions {
  Engine engine = Engine::Fast;
  /// What is replayed: instructions, and rounds of each replica, but at least three of these. Others are extrapolated.
  uint64_t max_work = uint64_t{3} << 20, max_generations = 16;
  size_t max_events = 0;  ///< that are kept, of the first rounds
  uint32_t calls = 1;     ///< one right after the other, from 1 on
};

/// With more instructions, fewer replicas run longer windows.
inline constexpr uint64_t kMaxReplayed = uint64_t{4} << 20;

struct Busiest {
  std::string name;  ///< "": no link was used
  double share = 0;  ///< of its rate, over the whole call
  double bytes = 0;  ///< carried in the whole call
};

struct Simulated {
  double seconds = 0;   ///< of one call, from its start on all ranks to its end on the last
  double interval = 0;  ///< with several calls: from the end of one to that of the next, which may overlap
  uint64_t rounds = 1, replayed = 1;  ///< windows of the call, and those that were replayed
  uint32_t width = 1;                 ///< replicas of the lanes
  double messages = 0;                ///< of the whole call
  bool verified = false;              ///< by this call
  Busiest busiest;
  Replay replay;
};

/// `call.geometry.width` is the executor's; see kMaxReplayed. Throws what compile() and replay() throw.
Simulated simulate(const Call& call, Machine& machine, const SimulateOptions& options = {});

}  // namespace tutti::sim
