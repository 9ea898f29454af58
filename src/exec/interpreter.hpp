// The interpreter: runs one rank's program over links. It never waits: an instruction that cannot run yet reports what
// it waits for.
//
// One source serves every kind of processor. Its policies:
//   Group   the threads that execute a lane: one on a host, a block on a GPU. The leader polls and publishes; all of
//           them move bytes: leader(), thread(), threads(), sync(), broadcast(outcome). operands(lane, op): room for
//           the addresses of an instruction's operands, which all of them fill and read. On a GPU the first threads
//           of the group, the leader among them, look at a peer each (PollsTogether).
//   Wire    the operations on links (link/wire.hpp). Where some have messages in lines (kLines), Reduce also has
//           send_lines(group, rank, lane, op, from), and Group any_gave_up(): a barrier, true if the call was ended
//           while a thread waited for the rest of a message.
//   Reduce  folds and copies bytes: run(group, how, op, segment, to, slot, operands); copy(group, to, from, bytes).
//           set_operand(operands, k, arrival, offset): what run() gets for a message.
//   Remote  what goes beyond messages: a rank reads and writes the memory of others (exec/host/remote_access.hpp).
//           kDrains: a lane ends when its readers are done (RankState::drains).
//
// State lies in memory that the whole group sees. Lanes of one rank may run on different processors: each is written by
// its own group, and others read its `progress` alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hd.hpp"
#include "exec/readiness.hpp"
#include "exec/state.hpp"
#include "link/wire.hpp"

namespace tutti::exec {

/// A Reduce with a `Filling` chooses how the slots of some instructions are filled: chooses(op), begin(), end(), and
/// run() with what begin() has returned. A caller of Interpreter::move_segment() itself, such as a GPU's lanes, does
/// not ask it.
template <class Reduce>
concept ChoosesStores = requires {
  typename Reduce::Filling;
};

template <class Group, class Wire, class Reduce, class Remote>
struct Interpreter : Readiness<Group, Wire, Remote> {
  using Memory = typename Wire::Words;

  // The path of every step is inlined; the parts that only messages need are separate functions.

  /// Runs the lane's next instruction if it can run now.
  [[gnu::always_inline]] TUTTI_HD static Outcome try_step(const Group& group, RankState& rank, LaneState& lane) {
    Step step;
    const Outcome outcome = begin_step(group, rank, lane, step);
    if (step.op == nullptr) return outcome;
    if (moves_segments(*step.op)) move_segments(group, rank, lane, step);
    return end_step(group, rank, lane, step);
  }

  // Its parts, for who has no register left to keep anything while bytes are moved.

  /// An instruction that runs, and where its outgoing message is written; null: none does.
  struct Step {
    const Instruction* op = nullptr;
    unsigned char* slot = nullptr;
  };
  TUTTI_HD static Step step_of(RankState& rank, LaneState& lane) {
    const Instruction* const op = lane.next;
    return {op, op->slot != Slot::None ? outgoing(rank, lane, *op) : nullptr};
  }

  TUTTI_HD static bool moves_segments(const Instruction& op) {
    return !(Remote::kAny && op.remote != 0) && !(Wire::kLines && op.only_sends);
  }

  [[gnu::always_inline]] TUTTI_HD static Outcome begin_step(const Group& group, RankState& rank, LaneState& lane,
                                                            Step& step) {
    Outcome outcome = Outcome::Progress;
    if constexpr (PollsTogether<Group>) {
      if (group.polls()) outcome = ready_together(group, rank, lane);
    } else if (group.leader()) {
      outcome = ready(rank, lane);
    }
    if (group.leader()) {
      if constexpr (link::Fences<Memory>) {
        if (outcome != Outcome::Progress && lane.uncommitted != nullptr) commit(rank, lane, *(lane.next - 1));
      }
    }
    outcome = group.broadcast(outcome);
    if (outcome != Outcome::Progress) return outcome;
    const Step begun = step_of(rank, lane);
    if (begun.op->publishes_first && group.leader()) publish(rank, lane, *begun.op, begun.slot);
    if (Remote::kAny && begun.op->remote != 0) {
      outcome = Remote::move(group, rank, lane, *begun.op, begun.slot);
      if (outcome != Outcome::Progress || Remote::continues(lane)) return outcome;
    }
    step = begun;
    return outcome;
  }

  [[gnu::always_inline]] TUTTI_HD static void move_segment(const Group& group, const RankState& rank,
                                                           const LaneState& lane, const Step& step, uint32_t s,
                                                           const auto&... filling) {
    const Instruction& op = *step.op;
    const Segment& segment = lane.tables->segments[s];
    const unsigned char** const operands = group.operands(lane, op);
    if (s != op.segments.begin) group.sync();  // all have used those of the segment before
    set_operands<Reduce>(lane, op, segment, operands, group.thread(), group.threads());
    group.sync();
    unsigned char* const to = segment.to.base == Base::None ? nullptr : address(lane, segment.to);
    unsigned char* const slot = step.slot == nullptr ? nullptr : step.slot + segment.at;
    Reduce::run(group, rank.arithmetic, op, segment, to, slot, operands, filling...);
  }

  [[gnu::always_inline]] TUTTI_HD static Outcome end_step(const Group& group, RankState& rank, LaneState& lane,
                                                          const Step& step) {
    const Instruction& op = *step.op;
    unsigned char* const slot = step.slot;
    if constexpr (Wire::kLines) {
      if (op.lines && group.any_gave_up()) return Outcome::GaveUp;
    }
    if (op.push_copies) copy_to_readers(group, rank, lane, op, slot);
    group.sync();
    if (group.leader() && op.outs.begin != op.outs.end && !op.publishes_first) publish(rank, lane, op, slot);
    if constexpr (PollsTogether<Group>) {
      if (group.polls()) end_messages(group, rank, lane, op);
    }
    if (group.leader()) {
      if constexpr (!PollsTogether<Group>) consume(rank, lane, op);
      if (op.repeats == 1 || !repeats(rank, lane, op)) advance(rank, lane);
    }
    group.sync();
    return Outcome::Progress;
  }

  /// All threads that poll: what has been read goes back to its writers, and lines count as sent.
  TUTTI_HD static void end_messages(const Group& group, RankState& rank, LaneState& lane, const Instruction& op) {
    TUTTI_HD_ROLLED
    for (uint32_t i = group.thread(); i < op.arrivals.end - op.arrivals.begin; i += group.pollers()) {
      Wire::consume(rank.in[lane.tables->arrivals[op.arrivals.begin + i]], lane.arrivals[i]);
    }
    if constexpr (Wire::kLines) {
      TUTTI_HD_ROLLED
      for (uint32_t i = op.outs.begin + group.thread(); i < op.outs.end; i += group.pollers()) {
        const Out& to = lane.tables->outs[i];
        if (is_flagged(to.delivery)) Wire::published(rank.out[to.link]);
      }
    }
  }

  /// Pushes the message, which is in `slot` or in the rank's own memory, to readers.
  TUTTI_HD_APART static void copy_to_readers(const Group& group, RankState& rank, LaneState& lane,
                                             const Instruction& op, unsigned char* slot) {
    if (!Wire::kLines || !(op.only_sends || op.lines)) group.sync();  // the message is complete; else it is already
    const bool empty = op.message.base == Base::None;                 // lies nowhere
    const unsigned char* const from = slot != nullptr ? slot : empty ? nullptr : address(lane, op.message);
    TUTTI_HD_ROLLED
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const Out& to = lane.tables->outs[i];
      if (to.delivery == Delivery::Pushed) Reduce::copy(group, link::push_slot(rank.out[to.link]), from, op.bytes);
    }
    if constexpr (Wire::kLines) Reduce::send_lines(group, rank, lane, op, from);
  }

 private:
  [[gnu::always_inline]] TUTTI_HD static void move_segments(const Group& group, const RankState& rank,
                                                            const LaneState& lane, const Step& step) {
    if constexpr (ChoosesStores<Reduce>) {
      if (Reduce::chooses(*step.op)) return fill_slot(group, rank, lane, step);
    }
    TUTTI_HD_ROLLED
    for (uint32_t s = step.op->segments.begin; s < step.op->segments.end; ++s) move_segment(group, rank, lane, step, s);
  }

  /// The same, where the Reduce chooses. Apart, so that no other step has a choice to keep and to look at. Takes the
  /// step by value: by reference, the caller would have to keep its parts in memory.
  TUTTI_HD_APART static void fill_slot(const Group& group, const RankState& rank, const LaneState& lane, Step step) {
    const auto filling = Reduce::begin(rank, *step.op);
    TUTTI_HD_ROLLED
    for (uint32_t s = step.op->segments.begin; s < step.op->segments.end; ++s) {
      move_segment(group, rank, lane, step, s, filling);
    }
    Reduce::end(*step.op, filling);
  }

  using Lanes = Readiness<Group, Wire, Remote>;
  using Lanes::advance;
  using Lanes::ready;
  using Lanes::ready_together;

  /// Prepares the instruction's next run; false if that was the last one.
  TUTTI_HD_APART static bool repeats(const RankState& rank, LaneState& lane, const Instruction& op) {
    const bool again = ++lane.repeated < op.repeats;
    if (again) {
      lane.arrived = 0;
      lane.bases[0] = moved(lane.bases[0], op.bytes);
    } else {
      lane.repeated = 0;
      lane.bases[0] = moved(rank.bases[0], lane.round * rank.advance_bytes);
    }
    return again;
  }

  TUTTI_HD static void publish(RankState& rank, LaneState& lane, const Instruction& op, unsigned char* slot) {
    const uint64_t tag = rank.tag ^ op.salt;
    Stage* stage = op.slot == Slot::Stage ? rank.stages[op.stage] : nullptr;
    TUTTI_HD_ROLLED
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const Out& to = lane.tables->outs[i];
      link::OutLink& out = rank.out[to.link];
      switch (to.delivery) {
        case Delivery::Inline:
          Wire::publish_inline(out, tag, lane.small, op.bytes);
          break;
        case Delivery::Staged:
          Wire::publish_staged(out, tag, slot, op.bytes);
          stage->held[stage->next * stage->readers + (i - op.outs.begin)] = out.next;
          break;
        case Delivery::Pushed:
          Wire::publish_pushed(out, tag, op.bytes);
          break;
        case Delivery::Ll:
        case Delivery::Ll128:
          if constexpr (Wire::kLines && !PollsTogether<Group>) Wire::published(out);
          break;
        case Delivery::Mapped:
          Wire::publish_mapped(out, tag, *rank.shared[static_cast<uint32_t>(op.message.base)],
                               address(lane, op.message), op.bytes);
          break;
        case Delivery::Address:
        case Delivery::Cma:
          Wire::publish_zcopy(out, tag, address(lane, op.message), op.bytes);
          break;
      }
    }
    if (stage != nullptr && ++stage->next == stage->slots) stage->next = 0;
    if constexpr (link::Fences<Memory>) {
      if (lane.uncommitted == nullptr) lane.uncommitted = &op;
      if (!op.defers_fence) commit(rank, lane, op);
    }
  }

  /// One fence for all messages with a descriptor that were published since the last one, `last` being the last to.
  TUTTI_HD_APART static void commit(RankState& rank, LaneState& lane, const Instruction& last) {
    bool fenced = false;
    TUTTI_HD_ROLLED
    for (const Instruction* op = lane.uncommitted; op <= &last; ++op) {
      TUTTI_HD_ROLLED
      for (uint32_t i = op->outs.begin; i < op->outs.end; ++i) {
        const Out& to = lane.tables->outs[i];
        if (is_flagged(to.delivery)) continue;
        if (!fenced) Memory::fence();
        fenced = true;
        Wire::commit(rank.out[to.link]);
      }
    }
    lane.uncommitted = nullptr;
  }

  TUTTI_HD static void consume(RankState& rank, LaneState& lane, const Instruction& op) {
    const link::Arrival* arrival = lane.arrivals;
    TUTTI_HD_ROLLED
    for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) {
      Wire::consume(rank.in[lane.tables->arrivals[i]], *arrival++);
    }
  }
};

}  // namespace tutti::exec
