#include "sim/simulate.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

constexpr uint64_t kFewestRounds = 6;  // of which the middle ones are steady
constexpr uint64_t kRoundsAReplica = 4;

/// How many rounds to replay, and with how many replicas.
ReplayOptions extent_of(const Programs& programs, uint32_t wanted, const SimulateOptions& options) {
  const uint64_t most = std::max(kFewestRounds, options.most_work / std::max<uint64_t>(1, programs.full_ops));
  uint64_t width = std::clamp<uint64_t>(wanted, 1, programs.rounds);
  if (programs.rounds > most) width = std::clamp<uint64_t>(most / kRoundsAReplica, 1, width);
  const uint64_t enough = std::max(kFewestRounds, 2 * kRoundsAReplica * width);
  return {.width = static_cast<uint32_t>(width),
          .rounds = std::min({programs.rounds, most, enough}),
          .most_events = options.most_events};
}

/// Seconds of a further round, from the middle of those that were replayed: the first fill the pipeline, the last drain
/// it.
double seconds_a_round(const Replay& replay) {
  std::vector<double> ends = replay.round_ends;
  std::sort(ends.begin(), ends.end());
  const size_t first = ends.size() / 4, last = ends.size() - 1 - ends.size() / 4;
  if (last <= first) return replay.seconds / static_cast<double>(ends.size());
  return (ends[last] - ends[first]) / static_cast<double>(last - first);
}

Busiest busiest_of(const Machine& machine, const Replay& replay, double times, double seconds) {
  Busiest busiest;
  for (size_t i = 0; i < replay.carried.size(); ++i) {
    const double bytes = replay.carried[i] * times;
    const double share = seconds > 0 ? bytes / machine.resources()[i].rate / seconds : 0;
    if (bytes > 0 && share > busiest.share) busiest = {machine.resources()[i].name, share, bytes};
  }
  return busiest;
}

}  // namespace

Simulated simulate(const Call& call, Machine& machine, const SimulateOptions& options) {
  const Programs programs = compile(call);
  const ReplayOptions extent = extent_of(programs, call.geometry.width, options);
  Simulated result{.rounds = programs.rounds, .replayed = extent.rounds, .width = extent.width};
  result.verified = programs.verified;
  const auto run = [&](Network& network) { result.replay = replay(programs, machine, network, extent); };
  if (options.engine == Engine::SimGrid) {
    std::vector<std::vector<uint32_t>> routes;
    for (const Channel& channel : programs.channels) routes.push_back(machine.route(channel.from, channel.to).resources);
    with_simgrid(machine.resources(), routes, run);
  } else {
    run(*equal_shares(machine.resources()));
  }
  const double further = static_cast<double>(programs.rounds - extent.rounds);
  result.seconds = result.replay.seconds + (further > 0 ? further * seconds_a_round(result.replay) : 0);
  const double times = static_cast<double>(programs.rounds) / static_cast<double>(extent.rounds);
  result.messages = static_cast<double>(result.replay.messages) * times;
  result.busiest = busiest_of(machine, result.replay, times, result.seconds);
  return result;
}

}  // namespace tutti::sim
