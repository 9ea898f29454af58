#include "sim/simulate.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

constexpr uint64_t kFewest = 3;        // rounds of each replica that are replayed, at least: the last is not steady
constexpr uint64_t kFewestAtOnce = 2;  // replicas, so that one's messages move while another waits

/// With fewer replicas of longer windows, as many bytes are under way: for calls of so many ranks that replicas that
/// there would be take too long to replay. `ops`: instructions of a window.
Call with_fewer_replicas(Call call, uint64_t ops, uint64_t most) {
  exec::Geometry& geometry = call.geometry;
  const uint64_t rounds = std::max<uint64_t>(1, (geometry.count + geometry.window - 1) / geometry.window);
  const uint64_t width = std::clamp<uint64_t>(geometry.width, 1, rounds);
  const uint64_t fits = std::max(kFewestAtOnce, most / kFewest / std::max<uint64_t>(1, ops));
  if (width <= fits) return call;
  geometry.window = geometry.window * width / fits;
  geometry.width = static_cast<uint32_t>(fits);
  return call;
}

/// How many rounds to replay.
ReplayOptions extent_of(const Programs& programs, uint32_t wanted, const SimulateOptions& options) {
  const uint64_t width = std::clamp<uint64_t>(wanted, 1, programs.rounds);
  const uint64_t affordable = options.max_work / std::max<uint64_t>(1, programs.full_ops) / width;
  const uint64_t generations = std::clamp(affordable, kFewest, std::max(kFewest, options.max_generations));
  return {.width = static_cast<uint32_t>(width),
          .rounds = std::min(programs.rounds, generations * width),
          .calls = std::max<uint32_t>(1, options.calls),
          .max_events = options.max_events};
}

/// Seconds of a further round: how far the replicas' rounds lie behind those before, without the first ones, which fill
/// the pipeline, and the last, which drain it.
double seconds_a_round(const Replay& replay, uint32_t width) {
  std::vector<double> means;
  for (size_t first = 0; first + width <= replay.round_ends.size(); first += width) {
    double sum = 0;
    for (size_t i = first; i < first + width; ++i) sum += replay.round_ends[i];
    means.push_back(sum / width);
  }
  const size_t last = means.size() - 2, first = means.size() > kFewest ? std::max<size_t>(1, last / 2) : 0;
  return (means[last] - means[first]) / static_cast<double>(last - first) / width;
}

/// Bytes that each resource carries in a round, but the last.
std::vector<double> carried_in_round(const Replay& replay, const ReplayOptions& extent) {
  std::vector<double> bytes = replay.carried;
  for (double& of_all : bytes) of_all /= static_cast<double>(extent.rounds - 1) * extent.calls;
  return bytes;
}

/// What the busiest resource takes for these bytes: no round, and no call, is shorter.
double least_seconds(const Machine& machine, const std::vector<double>& bytes) {
  double least = 0;
  for (size_t i = 0; i < bytes.size(); ++i) least = std::max(least, bytes[i] / machine.resources()[i].rate);
  return least;
}

/// Bytes that each resource carries in a call. Of the rounds that were replayed, the last is a call's last, which may
/// be short.
std::vector<double> carried_in_call(const Replay& replay, const ReplayOptions& extent, double further) {
  std::vector<double> bytes = replay.carried_last;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (bytes[i] + replay.carried[i]) / extent.calls;
  if (further == 0) return bytes;
  const std::vector<double> round = carried_in_round(replay, extent);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += further * round[i];
  return bytes;
}

Busiest busiest_of(const Machine& machine, const std::vector<double>& bytes, double seconds) {
  Busiest busiest;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double share = seconds > 0 ? bytes[i] / machine.resources()[i].rate / seconds : 0;
    if (bytes[i] > 0 && share > busiest.share) busiest = {machine.resources()[i].name, share, bytes[i]};
  }
  return busiest;
}

}  // namespace

Simulated simulate(const Call& call, Machine& machine, const SimulateOptions& options) {
  Programs programs = compile(call);
  const Call fewer = with_fewer_replicas(call, programs.full_ops, kMaxReplayed);
  if (fewer.geometry.width != call.geometry.width) programs = compile(fewer);
  const ReplayOptions extent = extent_of(programs, fewer.geometry.width, options);
  Simulated result{.rounds = programs.rounds, .replayed = extent.rounds, .width = extent.width};
  result.verified = programs.verified;
  const auto run = [&](Network& network) { result.replay = replay(programs, machine, network, extent); };
  if (options.engine == Engine::SimGrid) {
    std::vector<std::vector<uint32_t>> routes;
    for (const Channel& channel : programs.channels)
      routes.push_back(machine.route(channel.from, channel.to).resources);
    for (Rank rank = 0; rank < machine.ranks(); ++rank) {
      if (machine.memory_of(rank) != Machine::kNoMemory) routes.push_back({machine.memory_of(rank)});
    }
    with_simgrid(machine.resources(), routes, run);
  } else {
    run(options.engine == Engine::Fair ? *fair_shares(machine.resources()) : *equal_shares(machine.resources()));
  }
  const auto further = static_cast<double>(programs.rounds - extent.rounds);
  double rest = 0;
  if (further > 0) {  // windows of several replicas end at other times, so the difference may be too short
    const double least = least_seconds(machine, carried_in_round(result.replay, extent));
    rest = further * std::max(least, seconds_a_round(result.replay, extent.width));
  }
  const std::vector<double>& ends = result.replay.call_ends;
  const std::vector<double> bytes = carried_in_call(result.replay, extent, further);
  const double least = further > 0 ? least_seconds(machine, bytes) : 0;
  result.seconds = std::max(ends.front() + rest, least);
  if (ends.size() > 1) {
    const double apart = (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1) + rest;
    result.interval = std::max(apart, least);
  }
  const double times = static_cast<double>(programs.rounds) / static_cast<double>(extent.rounds) / extent.calls;
  result.messages = static_cast<double>(result.replay.messages) * times;
  result.busiest = busiest_of(machine, bytes, result.seconds);
  return result;
}

}  // namespace tutti::sim
