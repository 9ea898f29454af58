// The interpreter: runs one rank's program over links. It never waits: an instruction that cannot run yet reports what
// it waits for.
//
// One source serves every kind of processor. Its policies:
//   Group   the threads that execute a lane: one on a host, a block on a GPU. The leader polls and publishes; all of
//           them move bytes: leader(), thread(), threads(), sync(), broadcast(outcome). operands(lane, op): room for
//           the addresses of an instruction's operands, which all of them fill and read.
//   Wire    the operations on links (link/wire.hpp). Where some have messages in lines (kLines), Reduce also has
//           send_lines(group, rank, lane, op, from), and Group any_gave_up(): a barrier, true if the call was ended
//           while a thread waited for the rest of a message.
//   Reduce  folds and copies bytes: run(group, how, op, segment, to, slot, operands); copy(group, to, from, bytes).
//           operand(arrival, offset): what run() gets for a message.
//   Remote  what goes beyond messages: a rank reads and writes the memory of others (exec/host/remote_access.hpp).
//           kDrains: a lane ends when its readers are done (RankState::drains).
//
// State lies in memory that the whole group sees. Lanes of one rank may run on different processors: each is written by
// its own group, and others read its `progress` alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hd.hpp"
#include "exec/state.hpp"
#include "link/wire.hpp"

namespace tutti::exec {

template <class Group, class Wire, class Reduce, class Remote>
struct Interpreter {
  using Memory = typename Wire::Words;

  // The path of every step is inlined; the parts that only messages need are separate functions.

  /// Runs the lane's next instruction if it can run now.
  [[gnu::always_inline]] TUTTI_HD static Outcome try_step(const Group& group, RankState& rank, LaneState& lane) {
    Step step;
    const Outcome outcome = begin_step(group, rank, lane, step);
    if (step.op == nullptr) return outcome;
    if (moves_segments(*step.op)) {
      TUTTI_HD_ROLLED
      for (uint32_t s = step.op->segments.begin; s < step.op->segments.end; ++s) {
        move_segment(group, rank, lane, step, s);
      }
    }
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
    if (group.leader()) {
      outcome = ready(rank, lane);
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
                                                           const LaneState& lane, const Step& step, uint32_t s) {
    const Instruction& op = *step.op;
    const Segment& segment = lane.tables->segments[s];
    const unsigned char** const operands = group.operands(lane, op);
    if (s != op.segments.begin) group.sync();  // all have used those of the segment before
    set_operands<Reduce>(lane, op, segment, operands, group.thread(), group.threads());
    group.sync();
    unsigned char* const to = segment.to.base == Base::None ? nullptr : address(lane, segment.to);
    Reduce::run(group, rank.arithmetic, op, segment, to, step.slot == nullptr ? nullptr : step.slot + segment.at,
                operands);
  }

  [[gnu::always_inline]] TUTTI_HD static Outcome end_step(const Group& group, RankState& rank, LaneState& lane,
                                                          const Step& step) {
    const Instruction& op = *step.op;
    unsigned char* const slot = step.slot;
    if constexpr (Wire::kLines) {
      if (op.lines && group.any_gave_up()) return Outcome::Waiting;
    }
    if (op.push_copies) copy_to_readers(group, rank, lane, op, slot);
    group.sync();
    if (group.leader()) {
      if (op.outs.begin != op.outs.end && !op.publishes_first) publish(rank, lane, op, slot);
      consume(rank, lane, op);
      if (op.repeats == 1 || !repeats(rank, lane, op)) advance(rank, lane);
    }
    group.sync();
    return Outcome::Progress;
  }

  /// True when the link's zero-copy messages are consumed. The call may return when this holds for all links.
  TUTTI_HD static bool drained(link::OutLink& out) {
    if (out.acked < out.zcopied) Wire::refresh(out);
    return out.acked >= out.zcopied;
  }

  /// Claims the rank's fault, if no other lane has, and sets it.
  TUTTI_HD static Outcome fail(RankState& rank, const Fault& fault) {
    if (Memory::claim(&rank.faulted)) rank.fault = fault;
    return Outcome::Fault;
  }

 private:
  TUTTI_HD static Outcome wait(LaneState& lane, Await what) {
    lane.await = what;
    lane.peer = kNoRank;
    return Outcome::Waiting;
  }

  /// Waits for the other end of `link`.
  template <class Link>
  TUTTI_HD static Outcome wait(LaneState& lane, Await what, const Link& link) {
    lane.await = what;
    lane.peer = link.peer;
    lane.link_lane = link.link_lane;
    return Outcome::Waiting;
  }

  TUTTI_HD static void advance(const RankState& rank, LaneState& lane) {
    lane.arrived = 0;
    if (++lane.next != lane.end) return tell_progress(rank, lane, lane.progress + 1);
    lane.next = nullptr;
    tell_progress(rank, lane, ++lane.round << 32);
  }

  TUTTI_HD static void tell_progress(const RankState& rank, LaneState& lane, uint64_t progress) {
    if constexpr (link::Fences<Memory>) {
      Memory::store_progress(&lane.progress, progress, rank.watched);
    } else {
      Memory::store_release(&lane.progress, progress);
    }
  }

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

  /// Can the lane's next instruction run? Its messages have come, there is room for what it publishes, and the
  /// instruction that it must follow is done.
  [[gnu::always_inline]] TUTTI_HD static Outcome ready(RankState& rank, LaneState& lane) {
    for (;;) {
      if (lane.next == nullptr) {
        const Outcome entered = enter_round(rank, lane);
        if (entered != Outcome::Progress) return entered;
      }
      const Instruction& op = *lane.next;
      if (op.after_lane != kNone && !done(rank, lane, op)) return wait(lane, Await::Lane);
      if (!op.has_pieces && lane.round != 0) {
        advance(rank, lane);  // a message without pieces is sent once; others order rounds even when empty
        continue;
      }
      Outcome outcome = Outcome::Progress;
      if (op.arrivals.begin != op.arrivals.end) outcome = messages_ready(rank, lane, op);
      if (op.outs.begin != op.outs.end && outcome == Outcome::Progress) outcome = room_ready(rank, lane, op);
      return outcome;
    }
  }

  TUTTI_HD static Outcome enter_round(RankState& rank, LaneState& lane) {
    if (lane.round >= rank.rounds) {
      return Remote::kDrains && rank.drains ? drain(rank, lane) : Outcome::LaneDone;
    }
    const Tables& tables = lane.round < rank.full_rounds ? rank.full : rank.last;
    const Range ops = tables.lanes[lane.lane];
    if (ops.begin == ops.end) {
      lane.round = rank.rounds;
      tell_progress(rank, lane, lane.round << 32);
      return Outcome::LaneDone;
    }
    if (!fence_open(rank, lane)) return wait(lane, Await::Round);
    lane.tables = &tables;
    lane.next = tables.ops + ops.begin;
    lane.end = tables.ops + ops.end;
    const uint64_t shift = lane.round * rank.advance_bytes;
    lane.bases[0] = moved(rank.bases[0], shift);
    lane.bases[1] = moved(rank.bases[1], shift);
    lane.bases[2] = rank.bases[2];
    if (lane.round != 0) lane.bases[2] = moved(rank.bases[2], (lane.round & (rank.versions - 1)) * rank.scratch_bytes);
    if (Remote::kAny && rank.offers) Remote::enter_round(rank, lane);
    return Outcome::Progress;
  }

  /// Have all readers of the lane's messages read them?
  TUTTI_HD_APART static Outcome drain(RankState& rank, LaneState& lane) {
    const Tables& tables = rank.last;  // all rounds use the same links
    const Range ops = tables.lanes[lane.lane];
    TUTTI_HD_ROLLED
    for (const Instruction* op = tables.ops + ops.begin; op != tables.ops + ops.end; ++op) {
      TUTTI_HD_ROLLED
      for (uint32_t i = op->outs.begin; i < op->outs.end; ++i) {
        link::OutLink& out = rank.out[tables.outs[i].link];
        if (!drained(out)) return wait(lane, Await::Credit, out);
      }
    }
    lane.await = Await::Nothing;
    return Outcome::LaneDone;
  }

  /// Round k + versions reuses the scratch of round k, so every lane must have left round k.
  TUTTI_HD static bool fence_open(const RankState& rank, const LaneState& lane) {
    if (!rank.fenced || lane.round < rank.versions) return true;
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < rank.lane_count; ++i) {
      if ((Memory::load_acquire(&rank.lanes[i].progress) >> 32) + rank.versions <= lane.round) return false;
    }
    return true;
  }

  TUTTI_HD static bool done(const RankState& rank, const LaneState& lane, const Instruction& op) {
    return Memory::load_acquire(&rank.lanes[op.after_lane].progress) > (lane.round << 32 | op.after_op);
  }

  TUTTI_HD static Outcome messages_ready(RankState& rank, LaneState& lane, const Instruction& op) {
    TUTTI_HD_ROLLED
    for (; lane.arrived < op.arrivals.end - op.arrivals.begin; ++lane.arrived) {
      const link::InLink& in = rank.in[lane.tables->arrivals[op.arrivals.begin + lane.arrived]];
      link::Header header;
      link::Arrival& arrival = lane.arrivals[lane.arrived];
      const link::Poll poll = Wire::poll(in, header, arrival);
      if (poll == link::Poll::Empty) {
        if (in.posted != nullptr && op.lands) post(rank, lane, op, in);
        return wait(lane, Await::Message, in);
      }
      FaultKind wrong = FaultKind::None;
      int error = 0;
      if (poll == link::Poll::Bad) {
        wrong = FaultKind::BadHeader;
      } else if (header.tag != (rank.tag ^ op.salt)) {
        wrong = FaultKind::OtherCall;
      } else if (header.length != op.bytes) {
        wrong = FaultKind::BadLength;
      }
      if (arrival.where > link::Where::Address && wrong == FaultKind::None) wrong = locate(in, op, arrival, error);
      if (wrong != FaultKind::None) {
        return fail(rank, {wrong, in.peer, lane.lane, op.step, op.bytes, header, error});
      }
      if (lane.arrived == 0) fetch_ahead(rank, lane, op);
    }
    return Outcome::Progress;
  }

  /// Posts the destination of a message that is only received. Nothing else uses that memory until the message has
  /// come: all steps before this one are done, and the sender had a cause to send.
  TUTTI_HD_APART static void post(const RankState& rank, const LaneState& lane, const Instruction& op,
                                  const link::InLink& in) {
    Wire::post(in, rank.tag ^ op.salt, op.bytes, address(lane, lane.tables->segments[op.segments.begin].to));
  }

  /// Finds a message in another process's memory. It comes only where the program expects one: elsewhere it would be
  /// read as if it were here.
  TUTTI_HD_APART static FaultKind locate(const link::InLink& in, const Instruction& op, link::Arrival& arrival,
                                         int& error) {
    if (!Remote::accepts(op)) return FaultKind::BadHeader;
    if (arrival.where == link::Where::Mapped) error = Remote::locate(in, arrival, op.bytes);
    return error == 0 ? FaultKind::None : Remote::kAny ? FaultKind::Unreadable : FaultKind::BadHeader;
  }

  /// When one message has come, the others probably have too: fetching their lines together is faster than one by one.
  TUTTI_HD static void fetch_ahead(const RankState& rank, const LaneState& lane, const Instruction& op) {
    TUTTI_HD_ROLLED
    for (uint32_t i = op.arrivals.begin + 1; i < op.arrivals.end; ++i) Wire::fetch(rank.in[lane.tables->arrivals[i]]);
  }

  TUTTI_HD static Outcome room_ready(RankState& rank, LaneState& lane, const Instruction& op) {
    TUTTI_HD_ROLLED
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      const Out& to = lane.tables->outs[i];
      link::OutLink& out = rank.out[to.link];
      if (!Wire::can_publish(out)) return wait(lane, Await::Credit, out);
      if (to.delivery == Delivery::Pushed && !Wire::can_push(out)) return wait(lane, Await::Staging, out);
    }
    return op.slot == Slot::Stage ? stage_ready(rank, lane, *rank.stages[op.stage]) : Outcome::Progress;
  }

  TUTTI_HD static Outcome stage_ready(RankState& rank, LaneState& lane, const Stage& stage) {
    const uint64_t* held = stage.held + stage.next * stage.readers;
    TUTTI_HD_ROLLED
    for (uint32_t i = 0; i < stage.readers; ++i) {
      link::OutLink& out = rank.out[stage.outs[i]];
      if (out.acked < held[i]) Wire::refresh(out);
      if (out.acked < held[i]) return wait(lane, Await::Staging, out);
    }
    return Outcome::Progress;
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
          if constexpr (Wire::kLines) Wire::published(out);
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
