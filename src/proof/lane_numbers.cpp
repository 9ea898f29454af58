#include "proof/lane_numbers.hpp"

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "plan/verify/reject.hpp"

namespace tutti::proof {

using exec::Base;
using exec::Instruction;
using exec::Program;
using exec::Slot;
using exec::WindowProgram;

namespace {

std::string name_of_lane(uint32_t rank, uint32_t replica, uint32_t lane) {
  return fmt::format("rank {}, lane {}{}", rank, lane, replica > 0 ? fmt::format(", replica {}", replica) : "");
}

}  // namespace

LaneNumbers::LaneNumbers(std::span<const plan::RankPlan> plans, const CallCase& how,
                         std::vector<exec::Program> programs)
    : how_(how),
      job_(empty_job(plans, how)),
      programs_(std::move(programs)),
      channels_(job_, longest(), how.geometry.element_bytes) {
  for (uint32_t rank = 0; rank < programs_.size(); ++rank) add_rank(rank);
}

uint64_t LaneNumbers::longest() const {
  uint64_t bytes = 0;
  for (const Program& program : programs_) {
    for (const WindowProgram* window : {&program.full, &program.last}) {
      for (const Instruction& op : window->ops) bytes = std::max(bytes, op.bytes);
    }
  }
  return bytes;
}

void LaneNumbers::add_rank(uint32_t rank) {
  const Program& program = programs_[rank];
  ended_.push_back(job_.add(Word{.name = fmt::format("the number of rank {}'s calls", rank)}));
  first_thread_.push_back(static_cast<uint32_t>(job_.threads.size()));
  first_replica_.push_back(static_cast<uint32_t>(scratch_.size()));
  for (uint32_t replica = 0; replica < program.width; ++replica) {
    scratch_.push_back(
        job_.add(Memory{fmt::format("rank {}'s scratch", rank), elements(program.scratch_bytes) * how_.versions}));
    first_stage_.push_back(static_cast<uint32_t>(stages_.size()));
    for (const exec::StageNeed& need : program.stages) {
      Stage& stage = stages_.emplace_back();
      stage.memory = job_.add(
          Memory{fmt::format("rank {}'s staging memory", rank), elements(need.slot_bytes) * link::kFewestSlots});
      stage.held.assign(link::kFewestSlots, std::vector<uint64_t>(need.outs.size()));
    }
    for (uint32_t lane = 0; lane < program.last.lanes.size(); ++lane) {
      job_.threads.push_back({.rank = static_cast<Rank>(rank), .name = name_of_lane(rank, replica, lane)});
      progress_.push_back(job_.add(Word{.name = fmt::format("the progress of rank {}'s lane {}", rank, lane)}));
      small_.push_back(job_.add(
          Memory{fmt::format("the inline message of rank {}'s lane {}", rank, lane), elements(link::kInlineBytes)}));
    }
  }
}

Place LaneNumbers::place(const Turn& turn, const exec::Ref& ref) const {
  const Program& program = programs_[turn.rank];
  if (ref.base == Base::Scratch) {
    const uint64_t version = turn.round & (how_.versions - 1);
    return {scratch_[first_replica_[turn.rank] + turn.replica], elements(version * program.scratch_bytes + ref.offset)};
  }
  if (ref.base != Base::Input && ref.base != Base::Output) {
    plan::verifier::reject("rank {}: an instruction uses memory that it has not", turn.rank);
  }
  const uint64_t begin = program.window_bytes * (turn.replica + turn.round * program.width);
  const Place& buffer = ref.base == Base::Input ? job_.buffers[turn.rank].in : job_.buffers[turn.rank].out;
  return {buffer.memory, buffer.at + elements(begin + ref.offset)};
}

std::optional<Place> LaneNumbers::slot_of(const Turn& turn, const Instruction& op) {
  switch (op.slot) {
    case Slot::None:
      return std::nullopt;
    case Slot::Small:
      return Place{small_[thread_of(turn)], 0};
    case Slot::Push:
      return channels_.next_slot(out(turn, op.push_to));
    case Slot::Stage: {
      const Stage& stage = stage_of(turn, op.stage);
      const uint64_t bytes = programs_[turn.rank].stages[op.stage].slot_bytes;
      return Place{stage.memory, stage.next % link::kFewestSlots * elements(bytes)};
    }
  }
  return std::nullopt;
}

}  // namespace tutti::proof
