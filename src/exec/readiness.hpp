// When a lane's next instruction can run: part of the interpreter (interpreter.hpp), which explains the policies.
#pragma once

#include <cstdint>

#include "base/hd.hpp"
#include "exec/state.hpp"
#include "link/wire.hpp"

namespace tutti::exec {

/// Some threads of the group poll: polls(): is this thread one of them, which are its first pollers()? They all call
/// of_leader(outcome), the leader's outcome, after which they see what it has written; any(value), whether one of them
/// passed true; and is_first(value), whether the thread is the first of those that did.
template <class Group>
concept PollsTogether = requires(const Group& group) {
  group.pollers();
};

template <class Group, class Wire, class Remote>
struct Readiness {
  using Memory = typename Wire::Words;

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
      lane.progress = progress;  // others read a copy
      if (rank.watched) Memory::store_progress(&rank.lanes[lane.lane].progress, progress);
    } else {
      Memory::store_release(&lane.progress, progress);
    }
  }

  /// Can the lane's next instruction run? Its messages have come, there is room for what it publishes, and the
  /// instruction that it must follow is done.
  [[gnu::always_inline]] TUTTI_HD static Outcome ready(RankState& rank, LaneState& lane) {
    Outcome outcome = next_instruction(rank, lane);
    if (outcome != Outcome::Progress) return outcome;
    const Instruction& op = *lane.next;
    if (op.arrivals.begin != op.arrivals.end) outcome = messages_ready(rank, lane, op);
    if (op.outs.begin != op.outs.end && outcome == Outcome::Progress) outcome = room_ready(rank, lane, op);
    return outcome;
  }

  /// The same for all threads that poll: each looks at every so many-th message and reader.
  [[gnu::always_inline]] TUTTI_HD static Outcome ready_together(const Group& group, RankState& rank, LaneState& lane) {
    Outcome outcome = Outcome::Progress;
    if (group.leader()) outcome = next_instruction(rank, lane);
    outcome = group.of_leader(outcome);
    if (outcome != Outcome::Progress) return outcome;
    const Instruction& op = *lane.next;
    const link::InLink* from = nullptr;  // that the thread waits for
    TUTTI_HD_ROLLED
    for (uint32_t i = group.thread(); i < op.arrivals.end - op.arrivals.begin; i += group.pollers()) {
      const Outcome found = message_ready(rank, lane, op, i);
      if (found == Outcome::Fault) outcome = Outcome::Fault;
      if (found == Outcome::Waiting) from = &in_link(rank, lane, op, i);
    }
    if (group.any(outcome == Outcome::Fault)) return Outcome::Fault;
    if (group.is_first(from != nullptr)) wait(lane, Await::Message, *from);
    if (group.any(from != nullptr)) return Outcome::Waiting;
    const Out* to = nullptr;
    TUTTI_HD_ROLLED
    for (uint32_t i = op.outs.begin + group.thread(); i < op.outs.end; i += group.pollers()) {
      if (missing_room(rank, lane.tables->outs[i]) != Await::Nothing) to = &lane.tables->outs[i];
    }
    if (group.is_first(to != nullptr)) wait(lane, missing_room(rank, *to), rank.out[to->link]);
    if (group.any(to != nullptr)) return Outcome::Waiting;
    if (op.slot != Slot::Stage) return outcome;
    group.sync_pollers();  // they have noted how far their readers are, which the leader is about to read
    return group.leader() ? stage_ready(rank, lane, *rank.stages[op.stage]) : outcome;
  }

  /// Waits for all that is not a message, nor room for one, and skips what this round does not have.
  [[gnu::always_inline]] TUTTI_HD static Outcome next_instruction(RankState& rank, LaneState& lane) {
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
      return Outcome::Progress;
    }
  }

  TUTTI_HD static Outcome enter_round(RankState& rank, LaneState& lane) {
    if (lane.round >= rank.rounds) {
      return Remote::kDrains && rank.drains ? drain(rank, lane) : Outcome::LaneDone;
    }
    const Tables& tables = lane.round < rank.full_rounds ? rank.full : rank.last;
    const Range ops = tables.lanes[lane.row];
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
    const Range ops = tables.lanes[lane.row];
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

  TUTTI_HD static link::InLink& in_link(const RankState& rank, const LaneState& lane, const Instruction& op,
                                        uint32_t i) {
    return rank.in[lane.tables->arrivals[op.arrivals.begin + i]];
  }

  TUTTI_HD static Outcome messages_ready(RankState& rank, LaneState& lane, const Instruction& op) {
    TUTTI_HD_ROLLED
    for (; lane.arrived < op.arrivals.end - op.arrivals.begin; ++lane.arrived) {
      const Outcome found = message_ready(rank, lane, op, lane.arrived);
      if (found == Outcome::Waiting) return wait(lane, Await::Message, in_link(rank, lane, op, lane.arrived));
      if (found == Outcome::Fault) return found;
      if (lane.arrived == 0) fetch_ahead(rank, lane, op);
    }
    return Outcome::Progress;
  }

  /// Has the instruction's message number `i` come?
  [[gnu::always_inline]] TUTTI_HD static Outcome message_ready(RankState& rank, LaneState& lane, const Instruction& op,
                                                               uint32_t i) {
    const link::InLink& in = in_link(rank, lane, op, i);
    link::Header header;
    link::Arrival& arrival = lane.arrivals[i];
    const link::Poll poll = Wire::poll(in, header, arrival);
    if (poll == link::Poll::Empty) {
      if (in.posted != nullptr && op.lands) post(rank, lane, op, in);
      return Outcome::Waiting;
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
    if (wrong == FaultKind::None) return Outcome::Progress;
    return fail(rank, {wrong, in.peer, lane.lane, op.step, op.bytes, header, error});
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
      const Await missing = missing_room(rank, to);
      if (missing != Await::Nothing) return wait(lane, missing, rank.out[to.link]);
    }
    return op.slot == Slot::Stage ? stage_ready(rank, lane, *rank.stages[op.stage]) : Outcome::Progress;
  }

  /// Is there room for a message to this reader?
  TUTTI_HD static Outcome room_for(RankState& rank, const Out& to) {
    return missing_room(rank, to) == Await::Nothing ? Outcome::Progress : Outcome::Waiting;
  }

  /// What a message to this reader must wait for.
  TUTTI_HD static Await missing_room(RankState& rank, const Out& to) {
    link::OutLink& out = rank.out[to.link];
    if (!Wire::can_publish(out)) return Await::Credit;
    return to.delivery == Delivery::Pushed && !Wire::can_push(out) ? Await::Staging : Await::Nothing;
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
};

}  // namespace tutti::exec
