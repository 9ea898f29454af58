// Of a job of lanes: the numbers of its threads, words and memories; and where an instruction's bytes lie in a round.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "link/link.hpp"
#include "proof/call_case.hpp"
#include "proof/channels.hpp"

namespace tutti::proof {

/// A lane of a replica in a round of a call.
struct Turn {
  uint32_t rank = 0, replica = 0, lane = 0;
  uint64_t call = 0, round = 0, rounds = 0;
  const exec::WindowProgram* window = nullptr;
  bool is_first() const { return round == 0; }
};

/// Staging slots whose messages go to the same readers.
struct Stage {
  uint32_t memory = 0;
  uint64_t next = 0;
  std::vector<std::vector<uint64_t>> held;  // [slot][reader]: messages to be consumed
};

class LaneNumbers {
 protected:
  LaneNumbers(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs);

  uint32_t thread_of(uint32_t rank, uint32_t replica, uint32_t lane) const {
    return first_thread_[rank] + replica * static_cast<uint32_t>(programs_[rank].last.lanes.size()) + lane;
  }
  uint32_t thread_of(const Turn& turn) const { return thread_of(turn.rank, turn.replica, turn.lane); }
  Stage& stage_of(const Turn& turn, uint32_t stage) {
    return stages_[first_stage_[first_replica_[turn.rank] + turn.replica] + stage];
  }
  uint64_t elements(uint64_t bytes) const { return bytes / how_.geometry.element_bytes; }

  /// Of a word of progress: all before this instruction of this round is done.
  static uint64_t progress(const Turn& turn, uint64_t round, uint64_t op = 0) {
    return (turn.call * (turn.rounds + 1) + round) << 32 | op;
  }

  template <class Visit>
  void each_turn(const Visit& visit) {
    for (uint32_t rank = 0; rank < programs_.size(); ++rank) {
      const exec::Program& program = programs_[rank];
      for (uint32_t replica = 0; replica < program.width; ++replica) {
        const uint64_t rounds = program.rounds_of(replica);
        const bool has_last = (program.rounds - 1) % program.width == replica;
        for (uint32_t lane = 0; lane < program.last.lanes.size(); ++lane) {
          for (uint64_t call = 0; call < how_.calls; ++call) {
            for (uint64_t round = 0; round < rounds; ++round) {
              const bool is_last = has_last && round + 1 == rounds;
              visit(Turn{rank, replica, lane, call, round, rounds, is_last ? &program.last : &program.full});
            }
          }
        }
      }
    }
  }

  /// Calls visit(op) for the instructions that run.
  template <class Visit>
  static void each_op(const Turn& turn, const Visit& visit) {
    const exec::Range ops = turn.window->lanes[turn.lane];
    for (uint32_t i = ops.begin; i < ops.end; ++i) {
      const exec::Instruction& op = turn.window->ops[i];
      if (op.has_pieces || turn.is_first()) visit(op);
    }
  }

  Channel& out(const Turn& turn, uint32_t out) {
    const exec::LinkId& link = programs_[turn.rank].out_links[turn.window->outs[out].link];
    return channels_.at({static_cast<Rank>(turn.rank), link.peer, link.link_lane, turn.replica});
  }
  Channel& in(const Turn& turn, uint32_t arrival) {
    const exec::LinkId& link = programs_[turn.rank].in_links[turn.window->arrivals[arrival]];
    return channels_.at({link.peer, static_cast<Rank>(turn.rank), link.link_lane, turn.replica});
  }

  Place place(const Turn& turn, const exec::Ref& ref) const;
  /// Where an instruction stores its message; none: nowhere.
  std::optional<Place> slot_of(const Turn& turn, const exec::Instruction& op);
  static Place moved(Place place, uint64_t elements) { return {place.memory, place.at + elements}; }

  const CallCase& how_;
  Job job_;
  const std::vector<exec::Program> programs_;  // by rank
  Channels channels_;
  std::vector<Stage> stages_;       // by rank, replica and stage
  std::vector<uint32_t> ended_;     // by rank: its calls that have ended
  std::vector<uint32_t> progress_;  // by thread

 private:
  uint64_t longest() const;
  void add_rank(uint32_t rank);

  std::vector<uint32_t> first_thread_, first_replica_;  // by rank
  std::vector<uint32_t> first_stage_, scratch_;         // by rank and replica
  std::vector<uint32_t> small_;                         // by thread
};

}  // namespace tutti::proof
