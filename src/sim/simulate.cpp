#include "sim/simulate.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

constexpr uint64_t kFewestRounds = 8;  // the first and the last of which are not steady
constexpr uint64_t kRoundsAReplica = 4;

/// How many rounds to replay, and with how many replicas.
ReplayOptions extent_of(const Programs& programs, uint32_t wanted, const SimulateOptions& options) {
  const uint64_t most = std::max(kFewestRounds, options.most_work / std::max<uint64_t>(1, programs.full_ops));
  uint64_t width = std::clamp<uint64_t>(wanted, 1, programs.rounds);
  if (programs.rounds > most) width = std::clamp<uint64_t>(most / kRoundsAReplica, 1, width);
  const uint64_t enough = std::max(kFewestRounds, 2 * kRoundsAReplica * width);
  uint64_t rounds = std::min({programs.rounds, most, enough});
  if (rounds < programs.rounds) rounds = std::max(width, rounds / width * width);  // all replicas alike
  return {.width = static_cast<uint32_t>(width), .rounds = rounds, .most_events = options.most_events};
}

/// Seconds of a further round: how far the rounds of the replicas lie behind those before, without the first, which fill
/// the pipeline, and the last, which drain it.
double seconds_a_round(const Replay& replay, uint32_t width) {
  std::vector<double> means;
  for (size_t first = 0; first + width <= replay.round_ends.size(); first += width) {
    double sum = 0;
    for (size_t i = first; i < first + width; ++i) sum += replay.round_ends[i];
    means.push_back(sum / width);
  }
  if (means.size() < 4) return replay.seconds / static_cast<double>(replay.round_ends.size());
  const size_t last = means.size() - 2;
  return (means[last] - means[1]) / static_cast<double>(last - 1) / width;
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
    for (const Channel& channel : programs.channels)
      routes.push_back(machine.route(channel.from, channel.to).resources);
    with_simgrid(machine.resources(), routes, run);
  } else {
    run(*equal_shares(machine.resources()));
  }
  const double further = static_cast<double>(programs.rounds - extent.rounds);
  result.seconds = result.replay.seconds + (further > 0 ? further * seconds_a_round(result.replay, extent.width) : 0);
  const double times = static_cast<double>(programs.rounds) / static_cast<double>(extent.rounds);
  result.messages = static_cast<double>(result.replay.messages) * times;
  result.busiest = busiest_of(machine, result.replay, times, result.seconds);
  return result;
}

}  // namespace tutti::sim
