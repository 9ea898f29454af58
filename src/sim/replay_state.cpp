#include "sim/replay_state.hpp"

#include <utility>

namespace tutti::sim {
namespace {

class Maker {
 public:
  Maker(const Programs& programs, const Machine& machine, uint32_t width)
      : programs_(programs), machine_(machine), width_(width) {
    made.streams.resize(programs.channels.size() * width);
    if (!machine.gpus()) made.workers.resize(machine.cores());
    for (size_t rank = 0; rank < programs.ranks.size(); ++rank) {
      made.first_lane.push_back(static_cast<uint32_t>(made.lanes.size()));
      const auto lanes = static_cast<uint32_t>(programs.ranks[rank].last.lanes.size());
      for (uint32_t replica = 0; replica < width; ++replica) {
        for (uint32_t lane = 0; lane < lanes; ++lane) add_lane(static_cast<Rank>(rank), replica, lane);
      }
    }
    made.first_lane.push_back(static_cast<uint32_t>(made.lanes.size()));
  }

  ReplayState made;

 private:
  void add_lane(Rank rank, uint32_t replica, uint32_t lane) {
    const auto number = static_cast<uint32_t>(made.lanes.size());
    if (machine_.gpus()) made.workers.emplace_back();
    const auto worker = machine_.gpus() ? static_cast<uint32_t>(made.workers.size() - 1) : machine_.core_of(rank);
    made.workers[worker].lanes.push_back(number);
    made.lanes.push_back({.rank = rank, .lane = lane, .replica = replica, .worker = worker, .round = replica});
    const WindowWork& window = programs_.ranks[static_cast<size_t>(rank)].last;
    const auto stream = [&](uint32_t channel) -> Stream& { return made.streams[channel * width_ + replica]; };
    for (uint32_t op = window.lanes[lane].begin; op < window.lanes[lane].end; ++op) {
      const Work& work = window.ops[op];
      for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) stream(window.arrivals[i]).reader = number;
      for (uint32_t i = work.outs.begin; i < work.outs.end; ++i) stream(window.outs[i].channel).writer = number;
    }
  }

  const Programs& programs_;
  const Machine& machine_;
  const uint32_t width_;
};

}  // namespace

Event event_of(const Programs& programs, const WindowWork& window, const Lane& lane, const Work& work, double now) {
  Event event{.rank = lane.rank, .lane = lane.lane, .replica = lane.replica, .step = work.step, .round = lane.round};
  event.bytes = work.bytes;
  event.folds = work.folds;
  event.begin = lane.began;
  event.end = now;
  if (work.arrivals.begin != work.arrivals.end) {
    event.from = programs.channels[window.arrivals[work.arrivals.begin]].from;
  }
  if (work.outs.begin != work.outs.end) event.to = programs.channels[window.outs[work.outs.begin].channel].to;
  return event;
}

ReplayState initial_state(const Programs& programs, const Machine& machine, uint32_t width) {
  return std::move(Maker(programs, machine, width).made);
}

}  // namespace tutti::sim
