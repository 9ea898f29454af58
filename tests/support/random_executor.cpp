#include "support/random_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tuple>
#include <unordered_set>

namespace tutti::test {
namespace {

using plan::Buffer;
using plan::Lend;
using plan::Operand;
using plan::Piece;
using plan::Range;
using plan::RankPlan;
using plan::Step;
using plan::StepKind;

using Element = uint64_t;
using Elements = std::vector<Element*>;  // the elements of a list of pieces, in order

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A message in flight: copied when it was sent, or (`lent`) read in place when it is consumed.
struct Message {
  std::vector<Element> copied;
  Elements lent;
};

/// One rank's buffers; block b of a buffer is at blocks[b], in any owner's memory.
struct RankMemory {
  std::vector<std::vector<Element>> input, output, scratch;  // blocks; scratch: versions × blocks
  std::vector<Element*> in, out;
};

struct LaneState {
  uint32_t next = 0;
  uint32_t round = 0;
  uint64_t priority = 0;
};

class Run {
 public:
  Run(std::span<const RankPlan> plans, const Trial& trial)
      : plans_(plans), trial_(trial), random_(trial.seed), total_(0), windows_(trial.windows) {
    for (const uint64_t w : windows_) {
      starts_.push_back(total_);
      total_ += w;
    }
    if (plans.size() > 1) factor_ = random_() | 1;
    for (const RankPlan& plan : plans) {
      make_memory(plan);
      lanes_.emplace_back(plan.lanes.size());
      for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
        const Range steps = plan.lanes[lane].steps;
        lanes_.back()[lane] = {steps.begin, steps.size() == 0 ? rounds() : 0, 0};
      }
    }
    entered_.resize(plans.size());
  }

  void go() {
    while (take_a_step()) {
    }
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      for (size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
        if (!finished(rank, lane)) throw Wrong(fmt::format("deadlock: rank {}, lane {} never finishes", rank, lane));
      }
    }
    for (const auto& [link, queue] : links_) {
      if (!queue.empty()) throw Wrong(fmt::format("rank {} never takes a message", std::get<2>(link)));
    }
    for (size_t rank = 0; rank < plans_.size(); ++rank) check_rank(static_cast<Rank>(rank));
  }

 private:
  using Link = std::tuple<size_t, Rank, Rank>;  // lane, from, to

  uint32_t rounds() const { return static_cast<uint32_t>(windows_.size()); }
  bool finished(size_t rank, size_t lane) const { return lanes_[rank][lane].round == rounds(); }

  // ---- memory ------------------------------------------------------------------------------------------------------

  std::vector<Element> noise(uint64_t count) {
    std::vector<Element> elements(count + 1);  // never empty, so that it has an address
    for (Element& e : elements) e = random_();
    return elements;
  }

  void make_memory(const RankPlan& plan) {
    RankMemory memory;
    for (uint32_t b = 0; b < blocks(plan.shape, Buffer::Input, plan.rank); ++b) memory.input.push_back(noise(total_));
    for (uint32_t b = 0; b < blocks(plan.shape, Buffer::Output, plan.rank); ++b) memory.output.push_back(noise(total_));
    uint64_t largest = 0;
    for (const uint64_t w : windows_) largest = std::max(largest, w);
    for (uint32_t b = 0; b < plan.scratch_blocks * trial_.versions; ++b) memory.scratch.push_back(noise(largest));
    inputs_.push_back(memory.input);
    memories_.push_back(std::move(memory));
    RankMemory& kept = memories_.back();
    for (auto& block : kept.input) kept.in.push_back(block.data());
    for (auto& block : kept.output) kept.out.push_back(block.data());
    if (trial_.in_place && !kept.in.empty() && !kept.out.empty()) alias(plan, kept);
  }

  static void alias(const RankPlan& plan, RankMemory& memory) {
    const auto mine = static_cast<size_t>(plan.rank);
    switch (plan.shape.collective) {
      case Collective::AllReduce:
      case Collective::Reduce:
      case Collective::Broadcast:
        memory.out[0] = memory.in[0];
        break;
      case Collective::AllGather:
      case Collective::Gather:
        memory.out[mine] = memory.in[0];
        break;
      case Collective::ReduceScatter:
      case Collective::Scatter:
        memory.out[0] = memory.in[mine];
        break;
      default:
        break;
    }
  }

  Elements elements_of(const RankPlan& plan, Range pieces, uint32_t round) {
    RankMemory& memory = memories_[static_cast<size_t>(plan.rank)];
    Elements found;
    for (uint32_t i = pieces.begin; i < pieces.end; ++i) {
      const Piece& piece = plan.pieces[i];
      Element* start = nullptr;
      if (piece.buffer == Buffer::Input) start = memory.in[piece.block] + starts_[round];
      if (piece.buffer == Buffer::Output) start = memory.out[piece.block] + starts_[round];
      if (piece.buffer == Buffer::Scratch) {
        start = memory.scratch[round % trial_.versions * plan.scratch_blocks + piece.block].data();
      }
      const uint64_t first = cut(plan, piece.partition, piece.first, round);
      const uint64_t last = cut(plan, piece.partition, piece.last, round);
      for (uint64_t e = first; e < last; ++e) found.push_back(start + e);
    }
    return found;
  }

  uint64_t cut(const RankPlan& plan, uint32_t partition, uint32_t index, uint32_t round) const {
    return plan::cut(boundary(plan, partition, index), windows_[round], sizeof(Element), plan.grain);
  }

  /// Overwrites this round's scratch with noise: only readers to whom it was lent may still use it.
  void spoil_scratch(const RankPlan& plan, uint32_t round) {
    std::unordered_set<const Element*> lent;
    for (const auto& [link, queue] : links_) {
      if (std::get<1>(link) != plan.rank) continue;
      for (const Message& message : queue) lent.insert(message.lent.begin(), message.lent.end());
    }
    RankMemory& memory = memories_[static_cast<size_t>(plan.rank)];
    for (uint32_t b = 0; b < plan.scratch_blocks; ++b) {
      for (Element& e : memory.scratch[round % trial_.versions * plan.scratch_blocks + b]) {
        if (lent.count(&e) == 0) e = random_();
      }
    }
  }

  // ---- steps -------------------------------------------------------------------------------------------------------

  /// Lanes run by priority, which is drawn again at random times. So a lane may run far ahead, or stay far behind.
  bool take_a_step() {
    std::vector<std::pair<size_t, size_t>> able;
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      for (size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
        if (!finished(rank, lane) && enabled(rank, lane)) able.emplace_back(rank, lane);
      }
    }
    if (able.empty()) return false;
    if (random_() % 16 == 0) {
      for (auto& of_rank : lanes_) {
        for (LaneState& lane : of_rank) lane.priority = random_();
      }
    }
    const auto [rank, lane] = *std::max_element(able.begin(), able.end(), [this](const auto& a, const auto& b) {
      return lanes_[a.first][a.second].priority < lanes_[b.first][b.second].priority;
    });
    perform(rank, lane);
    return true;
  }

  /// Messages without pieces are sent in the first round only.
  static bool skipped(const Step& step, uint32_t round) { return round > 0 && step.pieces.size() == 0; }

  bool enabled(size_t rank, size_t lane) {
    const RankPlan& plan = plans_[rank];
    const LaneState& state = lanes_[rank][lane];
    const Step& step = plan.steps[state.next];
    if (plan.scratch_blocks > 0 && state.next == plan.lanes[lane].steps.begin && state.round >= trial_.versions) {
      for (const LaneState& other : lanes_[rank]) {
        if (other.round + trial_.versions <= state.round) return false;
      }
    }
    if (step.after != plan::kNone && !done(rank, step.after, state.round)) return false;
    if (skipped(step, state.round)) return true;
    std::map<Link, size_t> wanted;
    for (const Rank peer : peers_read(plan, step)) ++wanted[{lane, peer, plan.rank}];
    for (const auto& [link, count] : wanted) {
      if (links_[link].size() < count) return false;
    }
    if (step.kind != StepKind::Send) return true;
    for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) {
      if (links_[{lane, plan.rank, plan.peers[p]}].size() >= trial_.capacity) return false;
    }
    return true;
  }

  bool done(size_t rank, uint32_t step, uint32_t round) const {
    for (size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
      const Range steps = plans_[rank].lanes[lane].steps;
      if (step < steps.begin || step >= steps.end) continue;
      const LaneState& state = lanes_[rank][lane];
      return state.round > round || (state.round == round && state.next > step);
    }
    return false;
  }

  static std::vector<Rank> peers_read(const RankPlan& plan, const Step& step) {
    std::vector<Rank> peers;
    if (step.kind == StepKind::Recv) peers.push_back(plan.peers[step.peers.begin]);
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      if (plan.operands[o].peer != kNoRank) peers.push_back(plan.operands[o].peer);
    }
    return peers;
  }

  void perform(size_t rank, size_t lane) {
    const RankPlan& plan = plans_[rank];
    LaneState& state = lanes_[rank][lane];
    entered_[rank] = true;
    if (begins_round(rank, lane)) spoil_scratch(plan, state.round);
    const Step& step = plan.steps[state.next];
    if (!skipped(step, state.round)) {
      if (step.kind == StepKind::Send) {
        send(plan, step, lane, state.round);
      } else {
        combine(plan, step, lane, state.round);
      }
    }
    if (++state.next == plan.lanes[lane].steps.end) {
      state.next = plan.lanes[lane].steps.begin;
      ++state.round;
      if (plan.shape.collective == Collective::Barrier) check_barrier(rank);
    }
  }

  /// True for the first step that a rank takes in a round.
  bool begins_round(size_t rank, size_t lane) const {
    const uint32_t round = lanes_[rank][lane].round;
    for (size_t l = 0; l < lanes_[rank].size(); ++l) {
      const LaneState& other = lanes_[rank][l];
      const Range steps = plans_[rank].lanes[l].steps;
      if (steps.size() > 0 && (other.round > round || (other.round == round && other.next > steps.begin))) return false;
    }
    return true;
  }

  void send(const RankPlan& plan, const Step& step, size_t lane, uint32_t round) {
    const Elements from = elements_of(plan, step.pieces, round);
    for (uint32_t p = step.peers.begin; p < step.peers.end; ++p) {
      Message message;
      const bool may_lend = step.lend == Lend::Always || (step.lend == Lend::OutOfPlace && !trial_.in_place);
      if (may_lend && random_() % 4 != 0) {
        message.lent = from;
      } else {
        for (const Element* e : from) message.copied.push_back(*e);
      }
      links_[{lane, plan.rank, plan.peers[p]}].push_back(std::move(message));
    }
  }

  Message take(const RankPlan& plan, size_t lane, Rank peer) {
    auto& queue = links_[{lane, peer, plan.rank}];
    Message message = std::move(queue.front());
    queue.pop_front();
    if (message.lent.empty()) {
      for (Element& e : message.copied) message.lent.push_back(&e);
    }
    return message;
  }

  /// Copy, receive and fold: destination ← sum of the operands.
  void combine(const RankPlan& plan, const Step& step, size_t lane, uint32_t round) {
    const Elements to = elements_of(plan, step.pieces, round);
    std::vector<Message> operands;
    if (step.kind == StepKind::Recv) operands.push_back(take(plan, lane, plan.peers[step.peers.begin]));
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      const Operand& operand = plan.operands[o];
      if (operand.peer != kNoRank) {
        operands.push_back(take(plan, lane, operand.peer));
      } else {
        operands.push_back({{}, elements_of(plan, operand.pieces, round)});
      }
    }
    for (const Message& operand : operands) {
      if (operand.lent.size() != to.size()) {
        throw Wrong(fmt::format("rank {}: {} elements go where {} fit", plan.rank, operand.lent.size(), to.size()));
      }
    }
    // Elements one by one, from either end: a step that reads what it has written itself gives a wrong result.
    const bool backwards = random_() % 2 == 0;
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t at = backwards ? to.size() - 1 - i : i;
      Element sum = 0;
      for (const Message& operand : operands) sum += *operand.lent[at];
      *to[at] = step.completes ? sum * factor_ : sum;
    }
  }

  // ---- results -----------------------------------------------------------------------------------------------------

  void check_barrier(size_t rank) const {
    for (size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
      if (!finished(rank, lane)) return;
    }
    for (size_t other = 0; other < plans_.size(); ++other) {
      if (!entered_[other]) throw Wrong(fmt::format("rank {} leaves before rank {} has entered", rank, other));
    }
  }

  Element wanted(Rank rank, size_t block, uint64_t e) const {
    const auto mine = static_cast<size_t>(rank);
    switch (plans_[0].shape.collective) {
      case Collective::AllReduce:
      case Collective::Reduce:
      case Collective::ReduceScatter: {
        const size_t of = plans_[0].shape.collective == Collective::ReduceScatter ? mine : 0;
        Element sum = 0;
        for (const auto& input : inputs_) sum += input[of][e];
        return sum * factor_;
      }
      case Collective::AllGather:
      case Collective::Gather:
        return inputs_[block][0][e];
      case Collective::AllToAll:
        return inputs_[block][mine][e];
      case Collective::Scatter:
        return inputs_[0][mine][e];
      default:
        return inputs_[0][0][e];
    }
  }

  void check_rank(Rank rank) const {
    const RankMemory& memory = memories_[static_cast<size_t>(rank)];
    for (size_t block = 0; block < memory.out.size(); ++block) {
      for (uint64_t e = 0; e < total_; ++e) {
        if (memory.out[block][e] != wanted(rank, block, e)) {
          throw Wrong(fmt::format("rank {}: element {} of output block {} is wrong", rank, e, block));
        }
      }
    }
    if (!trial_.in_place && memory.input != inputs_[static_cast<size_t>(rank)]) {
      throw Wrong(fmt::format("rank {}: the input was written to", rank));
    }
  }

  std::span<const RankPlan> plans_;
  const Trial& trial_;
  std::mt19937_64 random_;
  uint64_t total_;
  std::vector<uint64_t> windows_, starts_;
  Element factor_ = 1;
  std::deque<RankMemory> memories_;                        // a deque: addresses are stable
  std::vector<std::vector<std::vector<Element>>> inputs_;  // the original inputs, by rank and block
  std::vector<std::vector<LaneState>> lanes_;              // by rank
  std::map<Link, std::deque<Message>> links_;
  std::vector<bool> entered_;
};

}  // namespace

std::string run_in_random_order(std::span<const RankPlan> plans, const Trial& trial) {
  try {
    Run(plans, trial).go();
    return {};
  } catch (const Wrong& wrong) {
    return wrong.what();
  }
}

}  // namespace tutti::test
