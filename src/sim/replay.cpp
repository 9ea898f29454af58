#include "sim/replay.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/format.hpp"
#include "link/link.hpp"
#include "sim/replay_state.hpp"
#include "topo/constants.hpp"

namespace tutti::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr uint64_t kVersions = 4;       // of scratch, as executors have it
constexpr double kReadersShare = 0.55;  // of a cooperative copy: its writer, which waits, copies the rest

class Replayer {
 public:
  Replayer(const Programs& programs, Machine& machine, Network& network, const ReplayOptions& options)
      : programs_(programs),
        machine_(machine),
        network_(network),
        options_(options),
        state_(initial_state(programs, machine, options.width)) {
    replay_.rank_seconds.resize(programs.ranks.size());
    replay_.round_ends.resize(options.rounds);
    replay_.call_ends.resize(options.calls);
    for (auto* carried : {&replay_.carried, &replay_.carried_last}) carried->resize(machine.resources().size());
    for (const Channel& channel : programs.channels) routes_.push_back(&machine.route(channel.from, channel.to));
    for (auto* counts : {&calls_begun_, &open_of_rank_, &lent_by_rank_}) counts->resize(programs.ranks.size());
    owes_call_.resize(programs.ranks.size());
  }

  Replay run() {
    for (size_t rank = 0; rank < programs_.ranks.size(); ++rank) begin_call(static_cast<Rank>(rank));
    std::vector<uint32_t> ended;
    while (open_lanes_ > 0 || !events_.empty() || !network_.idle()) {
      const double next = events_.empty() ? kNever : events_.top().time;
      if (next == kNever && network_.idle()) report_deadlock();
      ended.clear();
      now_ = network_.advance(next, ended);
      // All of them first: what ends one instruction may send the next message, which gets the number of one of these.
      ended_transfers_.clear();
      for (const uint32_t message : ended) ended_transfers_.push_back(transfers_[message]);
      for (const Transfer& transfer : ended_transfers_) end_transfer(transfer);
      while (ended.empty() && !events_.empty() && events_.top().time <= now_ + kInstant) {
        const Timer timer = events_.top();
        events_.pop();
        on(timer);
      }
    }
    replay_.seconds = *std::max_element(replay_.rank_seconds.begin(), replay_.rank_seconds.end());
    return std::move(replay_);
  }

 private:
  void on(const Timer& timer) {
    switch (timer.kind) {
      case Timer::Called:
        workers_[lanes_[timer.of].worker].busy = false;
        return begin(timer.of, workers_[lanes_[timer.of].worker]);
      case Timer::Worked:
        return start_reads(timer.of);
      case Timer::Arrived:
        return arrive(timer.of);
    }
  }

  /// A rank's next call. Its first instruction begins when the call's own work is done.
  void begin_call(Rank rank) {
    const auto r = static_cast<size_t>(rank);
    if (calls_begun_[r]++ == options_.calls) return;
    owes_call_[r] = machine_.costs().call > 0 ? 1 : 0;
    const std::span<Lane> mine(&lanes_[first_lane_[r]], first_lane_[r + 1] - first_lane_[r]);
    for (Lane& lane : mine) {
      const exec::Range ops = programs_.ranks[r].last.lanes[lane.lane];
      lane.call = calls_begun_[r] - 1;
      lane.round = lane.replica;
      lane.next = 0;
      lane.done = lane.replica >= options_.rounds || ops.begin == ops.end;
      if (lane.done) continue;
      ++open_lanes_;
      ++open_of_rank_[r];
    }
    if (open_of_rank_[r] == 0) return end_call_if_done(rank);
    for (const Lane& lane : mine) find_work(lane.worker);
  }

  /// A call ends when what it lent has been read.
  void end_call_if_done(Rank rank) {
    const auto r = static_cast<size_t>(rank);
    if (open_of_rank_[r] > 0 || lent_by_rank_[r] > 0) return;
    double& end = replay_.call_ends[calls_begun_[r] - 1];
    end = std::max(end, now_);
    begin_call(rank);
  }

  uint32_t stream_of(uint32_t channel, uint32_t replica) const { return channel * options_.width + replica; }

  const WindowWork& window_of(const Lane& lane) const {
    const RankWork& work = programs_.ranks[static_cast<size_t>(lane.rank)];
    return is_last(lane) ? work.last : work.full;
  }
  bool is_last(const Lane& lane) const { return lane.round + 1 >= options_.rounds; }
  const Work& work_of(const Lane& lane) const {
    const WindowWork& window = window_of(lane);
    return window.ops[window.lanes[lane.lane].begin + lane.next];
  }
  /// The other lanes of this rank and replica.
  std::span<Lane> siblings(const Lane& lane) {
    const auto lanes = static_cast<uint32_t>(window_of(lane).lanes.size());
    return {&lanes_[first_lane_[static_cast<size_t>(lane.rank)] + lane.replica * lanes], lanes};
  }

  bool ready(const Lane& lane) {
    const WindowWork& window = window_of(lane);
    const Work& work = work_of(lane);
    if (work.after_lane != exec::kNone) {
      const Lane& other = siblings(lane)[work.after_lane];
      if (!other.done && (other.round < lane.round || (other.round == lane.round && other.next <= work.after_op))) {
        return false;
      }
    }
    if (lane.next == 0 && !fence_open(lane)) return false;
    if (is_silent(lane, work)) return true;
    for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) {
      const Stream& stream = streams_[stream_of(window.arrivals[i], lane.replica)];
      if (stream.here == stream.used) return false;
    }
    for (uint32_t i = work.outs.begin; i < work.outs.end; ++i) {
      const Stream& stream = streams_[stream_of(window.outs[i].channel, lane.replica)];
      if (stream.sent - stream.used >= room_for(work, window.outs[i].delivery)) return false;
    }
    return true;
  }

  /// Unread messages of this kind on a channel. Short ones get as many slots in staging memory as a link holds.
  uint32_t room_for(const Work& work, exec::Delivery delivery) const {
    const uint64_t most = machine_.gpus() ? 0 : machine_constants().process_arena / machine_constants().staged_programs;
    const bool copied = delivery == exec::Delivery::Staged || delivery == exec::Delivery::Pushed;
    return copied && work.bytes * link::kCredits > most ? link::kSlots : link::kCredits;
  }

  /// A message without pieces is sent in the first round only.
  static bool is_silent(const Lane& lane, const Work& work) { return !work.has_pieces && lane.round != lane.replica; }

  bool fence_open(const Lane& lane) {
    if (!programs_.ranks[static_cast<size_t>(lane.rank)].fenced) return true;
    for (const Lane& other : siblings(lane)) {
      if (!other.done && other.round + kVersions * options_.width <= lane.round) return false;
    }
    return true;
  }

  void find_work(uint32_t number) {
    Worker& worker = workers_[number];
    if (worker.busy) return;
    const auto lanes = static_cast<uint32_t>(worker.lanes.size());
    // First the rank that ran last: another one on this core would need a context switch.
    for (const bool same : {true, false}) {
      for (uint32_t i = 0; i < lanes; ++i) {
        const uint32_t turn = (worker.turn + i) % lanes;
        Lane& lane = lanes_[worker.lanes[turn]];
        if (lane.done || (same && worker.last != kNoRank && lane.rank != worker.last) || !ready(lane)) continue;
        worker.turn = turn;
        begin(worker.lanes[turn], worker);
        return;
      }
    }
  }

  void begin(uint32_t number, Worker& worker) {
    Lane& lane = lanes_[number];
    const Work& work = work_of(lane);
    const bool switches = !machine_.gpus() && worker.last != kNoRank && worker.last != lane.rank;
    double seconds = switches ? machine_.costs().context_switch : 0;
    worker.busy = true;
    worker.last = lane.rank;
    if (std::exchange(owes_call_[static_cast<size_t>(lane.rank)], uint8_t{0}) != 0) {
      return after(seconds + machine_.costs().call, Timer::Called, number);
    }
    if (!is_silent(lane, work)) seconds += local_seconds(lane, work);
    lane.began = now_;
    if (work.publishes_first && !is_silent(lane, work)) publish(number);
    after(seconds, Timer::Worked, number);
  }

  /// Of an instruction, without the messages that it reads or writes.
  double local_seconds(const Lane& lane, const Work& work) const {
    const WorkCosts& costs = machine_.costs();
    double kernel = 0, wait = 0, messages = 0;
    // The first message is part of a message's latency, unless this one comes without a wait after others.
    const Worker& worker = workers_[lane.worker];
    const bool on = worker.ended >= now_ - kInstant && worker.ran == lane.rank;
    bool first = !(on && worker.sent);
    for (uint32_t i = work.outs.begin; i < work.outs.end; ++i) {
      if (!std::exchange(first, false)) messages += routes_[window_of(lane).outs[i].channel]->busy;
    }
    first = !(on && worker.received);
    for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) {
      const uint32_t channel = window_of(lane).arrivals[i];
      if (!std::exchange(first, false)) messages += routes_[channel]->busy;
      if (work.bytes > link::kInlineBytes && !routes_[channel]->network) wait = costs.first_read;
      if (!streams_[stream_of(channel, lane.replica)].by_kernel) continue;
      kernel += costs.kernel_call + static_cast<double>(work.bytes) * costs.kernel * readers_share(work);
    }
    return processor_seconds(costs, work) + messages + wait + kernel;
  }

  static double readers_share(const Work& work) { return work.cooperative ? kReadersShare : 1; }

  void after(double seconds, Timer::Kind kind, uint32_t of) { events_.push({kind, now_ + seconds, ++order_, of}); }

  /// The messages that move while the instruction runs: on GPUs those that it writes, else those that it reads.
  void start_reads(uint32_t number) {
    Lane& lane = lanes_[number];
    const Work& work = work_of(lane);
    const WindowWork& window = window_of(lane);
    lane.pending = 0;
    if (!is_silent(lane, work)) {
      const auto bytes = static_cast<double>(work.bytes);
      for (uint32_t i = work.outs.begin; machine_.gpus() && i < work.outs.end && work.bytes > 0; ++i) {
        transfer(window.outs[i].channel, bytes, {.lane = number});
      }
      const bool reads = !machine_.gpus() && work.bytes > link::kInlineBytes;
      for (uint32_t i = work.arrivals.begin; reads && i < work.arrivals.end; ++i) {
        if (routes_[window.arrivals[i]]->network) continue;  // it lies here already
        transfer(window.arrivals[i], bytes * readers_share(work), {.lane = number});
      }
      use_memory(number, lane, work);
    }
    if (lane.pending == 0) complete(number);
  }

  /// What no cache holds crosses the memory of the package that it lies in: this rank's, and the senders' where it
  /// reads their buffers.
  void use_memory(uint32_t number, const Lane& lane, const Work& work) {
    const WorkCosts& costs = machine_.costs();
    cross_memory(number, lane.rank, work.buffer_loads * costs.memory_load + work.buffer_stores * costs.memory_store);
    for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) {
      const uint32_t channel = window_of(lane).arrivals[i];
      if (!streams_[stream_of(channel, lane.replica)].lends_buffer) continue;
      cross_memory(number, programs_.channels[channel].from, static_cast<double>(work.bytes) * costs.memory_load);
    }
  }

  void cross_memory(uint32_t lane, Rank of, double bytes) {
    const uint32_t memory = machine_.memory_of(of);
    if (memory == Machine::kNoMemory || bytes <= 0) return;
    ++lanes_[lane].pending;
    start({&memory, 1}, bytes, {.lane = lane});
  }

  void transfer(uint32_t channel, double bytes, const Transfer& transfer) {
    const Route& route = *routes_[channel];
    if (route.resources.empty()) {  // ranks of one GPU
      if (transfer.stream != kNobody) after(transfer.latency, Timer::Arrived, transfer.stream);
      return;
    }
    if (transfer.lane != kNobody) ++lanes_[transfer.lane].pending;
    start(route.resources, bytes, transfer);
  }

  void start(std::span<const uint32_t> resources, double bytes, const Transfer& transfer) {
    const uint32_t number = network_.start(resources, bytes);
    if (number >= transfers_.size()) transfers_.resize(number + 1);
    transfers_[number] = transfer;
    const Lane& lane = lanes_[transfer.lane != kNobody ? transfer.lane : streams_[transfer.stream].writer];
    std::vector<double>& carried = is_last(lane) ? replay_.carried_last : replay_.carried;
    for (const uint32_t resource : resources) carried[resource] += bytes;
  }

  void end_transfer(const Transfer& transfer) {
    if (transfer.stream != kNobody) return after(transfer.latency, Timer::Arrived, transfer.stream);
    if (--lanes_[transfer.lane].pending == 0) complete(transfer.lane);
  }

  void publish(uint32_t number) {
    const Lane& lane = lanes_[number];
    const Work& work = work_of(lane);
    const WindowWork& window = window_of(lane);
    for (uint32_t i = work.outs.begin; i < work.outs.end; ++i) {
      const uint32_t channel = window.outs[i].channel, stream = stream_of(channel, lane.replica);
      const Route& route = *routes_[channel];
      ++streams_[stream].sent;
      streams_[stream].by_kernel = window.outs[i].delivery == exec::Delivery::Cma;
      streams_[stream].lends_buffer = work.lends_buffer && exec::is_zero_copy(window.outs[i].delivery);
      if (!machine_.gpus() && exec::is_zero_copy(window.outs[i].delivery)) {
        ++streams_[stream].lent;
        ++lent_by_rank_[static_cast<size_t>(lane.rank)];
      }
      ++replay_.messages;
      if (!machine_.gpus() && route.network && work.bytes > 0) {
        transfer(channel, static_cast<double>(work.bytes), {.stream = stream, .latency = route.seconds});
      } else {
        after(route.seconds, Timer::Arrived, stream);
      }
    }
  }

  void give_back(Stream& stream) {
    --stream.lent;
    --lent_by_rank_[static_cast<size_t>(lanes_[stream.writer].rank)];
    end_call_if_done(lanes_[stream.writer].rank);
  }

  void arrive(uint32_t stream) {
    ++streams_[stream].here;
    wake(streams_[stream].reader);
  }

  void wake(uint32_t lane) {
    if (lane != kNobody) find_work(lanes_[lane].worker);
  }

  void complete(uint32_t number) {
    Lane& lane = lanes_[number];
    const Work& work = work_of(lane);
    const WindowWork& window = window_of(lane);
    const bool silent = is_silent(lane, work);
    if (!silent && !work.publishes_first) publish(number);
    record(lane, work, window);
    advance(lane, window);
    workers_[lane.worker].end(lane.rank, now_, silent ? Work{} : work);
    if (!silent) {
      const auto stream = [&](uint32_t arrival) -> Stream& {
        return streams_[stream_of(window.arrivals[arrival], lane.replica)];
      };
      for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) ++stream(i).used;
      // Only now: a writer on this core makes it look for work, and this lane's next instruction may read them too.
      for (uint32_t i = work.arrivals.begin; i < work.arrivals.end; ++i) {
        if (stream(i).lent > 0) give_back(stream(i));
        wake(stream(i).writer);
      }
    }
    end_call_if_done(lane.rank);
    find_work(lane.worker);
    if (!machine_.gpus()) return;
    for (const Lane& other : siblings(lane)) find_work(other.worker);  // they may wait for this step, or this round
  }

  void record(const Lane& lane, const Work& work, const WindowWork& window) {
    replay_.rank_seconds[static_cast<size_t>(lane.rank)] = now_;
    if (replay_.events.size() >= options_.max_events) return;
    replay_.events.push_back(event_of(programs_, window, lane, work, now_));
  }

  void advance(Lane& lane, const WindowWork& window) {
    if (++lane.next < window.lanes[lane.lane].end - window.lanes[lane.lane].begin) return;
    if (lane.call == 0) replay_.round_ends[lane.round] = std::max(replay_.round_ends[lane.round], now_);
    lane.next = 0;
    lane.round += options_.width;
    if (lane.round < options_.rounds) return;
    lane.done = true;
    --open_lanes_;
    --open_of_rank_[static_cast<size_t>(lane.rank)];
  }

  [[noreturn]] void report_deadlock() {
    for (const Lane& lane : lanes_) {
      if (lane.done) continue;
      throw_error(Code::InternalError, "the simulation stands still: rank {} waits in lane {} at step {} of round {}",
                  lane.rank, lane.lane, work_of(lane).step, lane.round);
    }
    throw_error(Code::InternalError, "the simulation stands still");
  }

  const Programs& programs_;
  Machine& machine_;
  Network& network_;
  const ReplayOptions options_;
  std::vector<const Route*> routes_;  // by channel
  ReplayState state_;
  std::vector<Lane>& lanes_ = state_.lanes;
  const std::vector<uint32_t>& first_lane_ = state_.first_lane;
  std::vector<Worker>& workers_ = state_.workers;
  std::vector<Stream>& streams_ = state_.streams;
  std::vector<Transfer> transfers_;  // by number of a message on the network
  std::vector<Transfer> ended_transfers_;
  std::priority_queue<Timer> events_;
  // By rank: calls begun; lanes that are not done with the call; unread messages in its own memory; is the call's own
  // work still to be done?
  std::vector<uint32_t> calls_begun_, open_of_rank_, lent_by_rank_;
  std::vector<uint8_t> owes_call_;
  uint64_t order_ = 0, open_lanes_ = 0;
  double now_ = 0;
  Replay replay_;
};

}  // namespace

Replay replay(const Programs& programs, Machine& machine, Network& network, const ReplayOptions& options) {
  return Replayer(programs, machine, network, options).run();
}

}  // namespace tutti::sim
