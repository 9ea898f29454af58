// The interpreter: runs one rank's program over links. It never waits: an instruction that cannot run yet reports what
// it waits for.
//
// One source serves every kind of processor. `Group`: the threads that execute a lane, one on a host, a block on a GPU;
// the leader polls and publishes, all of them move bytes. `Wire`: the operations on links. `Reduce`: folds and copies
// bytes. State lies in memory that the whole group sees.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hd.hpp"
#include "exec/state.hpp"
#include "link/cooperative_copy.hpp"
#include "link/wire.hpp"

namespace tutti::exec {

/// The result of reading messages by CMA: 0, or an errno and the index of the message that could not be read.
struct CmaResult {
  int error = 0;
  uint32_t message = 0;
};

template <class Group, class Wire, class Reduce>
struct Interpreter {
  // The path of every step is inlined; the parts that only messages need are separate functions.

  /// Runs the lane's next instruction if it can run now.
  [[gnu::always_inline]] TUTTI_HD static Outcome try_step(const Group& group, RankState& rank, LaneState& lane) {
    Outcome outcome = Outcome::Progress;
    if (group.leader()) outcome = ready(rank, lane);
    outcome = group.broadcast(outcome);
    if (outcome != Outcome::Progress) return outcome;
    const Instruction& op = *lane.next;
    const bool sends = op.outs.begin != op.outs.end;
    unsigned char* slot = sends ? outgoing(rank, lane, op) : nullptr;
    if (sends && op.zcopy_first && group.leader()) publish(rank, lane, op, slot);
    outcome = move(group, rank, lane, op, slot);
    if (outcome != Outcome::Progress || lane.copying) return outcome;
    group.sync();
    if (group.leader()) {
      if (sends && !op.zcopy_first) publish(rank, lane, op, slot);
      consume(rank, lane, op);
      advance(lane);
    }
    group.sync();
    return Outcome::Progress;
  }

  /// True when the link's zero-copy messages are consumed. The call may return when this holds for all links.
  TUTTI_HD static bool drained(RankState& rank, uint32_t out) {
    link::OutLink& link = rank.out[out];
    if (link.acked < link.zcopied) Wire::refresh(link);
    return link.acked >= link.zcopied;
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

  TUTTI_HD static void advance(LaneState& lane) {
    lane.arrived = 0;
    ++lane.next;
    if (++lane.op < lane.ops) return;
    lane.op = 0;
    ++lane.round;
    lane.next = nullptr;
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
        advance(lane);  // a message without pieces is sent once; others order rounds even when empty
        continue;
      }
      Outcome outcome = Outcome::Progress;
      if (op.arrivals.begin != op.arrivals.end) outcome = messages_ready(rank, lane, op);
      if (op.outs.begin != op.outs.end && outcome == Outcome::Progress) outcome = room_ready(rank, lane, op);
      return outcome;
    }
  }

  TUTTI_HD static Outcome enter_round(RankState& rank, LaneState& lane) {
    if (lane.round >= rank.rounds) return Outcome::LaneDone;
    const Tables& tables = lane.round + 1 < rank.rounds ? rank.full : rank.last;
    const Range ops = tables.lanes[lane.lane];
    if (ops.begin == ops.end) {
      lane.round = rank.rounds;
      return Outcome::LaneDone;
    }
    if (!fence_open(rank, lane)) return wait(lane, Await::Round);
    lane.tables = &tables;
    lane.next = tables.ops + ops.begin;
    lane.ops = ops.end - ops.begin;
    const uint64_t shift = lane.round * rank.window_bytes;
    lane.bases[0] = moved(rank.bases[0], shift);
    lane.bases[1] = moved(rank.bases[1], shift);
    lane.bases[2] = rank.bases[2];
    if (lane.round != 0) lane.bases[2] = moved(rank.bases[2], lane.round % rank.versions * rank.scratch_bytes);
    if constexpr (Reduce::kRemoteAccess) {
      if (rank.offers) offer_direct_stores(rank, lane);
    }
    return Outcome::Progress;
  }

  /// Offers are made before the round's first message is sent, so a peer that folds those messages sees the offers.
  TUTTI_HD static void offer_direct_stores(RankState& rank, const LaneState& lane) {
    for (const Instruction* op = lane.next; op != lane.next + lane.ops; ++op) {
      if (!op->offers) continue;
      const Ref& to = lane.tables->segments[op->segments.begin].to;
      Reduce::offer_direct_store(rank.in[lane.tables->arrivals[op->arrivals.begin]],
                                 *rank.shared[static_cast<uint32_t>(to.base)], *op, address(lane, to),
                                 rank.tag ^ op->salt);
    }
  }

  /// `base` + `bytes`; `base` is null when offsets are addresses.
  TUTTI_HD static unsigned char* moved(unsigned char* base, uint64_t bytes) {
    return reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(base) + bytes);
  }

  /// Round k + versions reuses the scratch of round k, so every lane must have left round k.
  TUTTI_HD static bool fence_open(const RankState& rank, const LaneState& lane) {
    if (!rank.fenced || lane.round < rank.versions) return true;
    for (uint32_t i = 0; i < rank.lane_count; ++i) {
      if (rank.lanes[i].round + rank.versions <= lane.round) return false;
    }
    return true;
  }

  TUTTI_HD static bool done(const RankState& rank, const LaneState& lane, const Instruction& op) {
    const LaneState& other = rank.lanes[op.after_lane];
    return other.round > lane.round || (other.round == lane.round && other.op > op.after_op);
  }

  TUTTI_HD static Outcome messages_ready(RankState& rank, LaneState& lane, const Instruction& op) {
    for (; lane.arrived < op.arrivals.end - op.arrivals.begin; ++lane.arrived) {
      const link::InLink& in = rank.in[lane.tables->arrivals[op.arrivals.begin + lane.arrived]];
      link::Header header;
      link::Arrival& arrival = lane.arrivals[lane.arrived];
      const link::Poll poll = Wire::poll(in, header, arrival);
      if (poll == link::Poll::Empty) return wait(lane, Await::Message, in);
      FaultKind wrong = FaultKind::None;
      int error = 0;
      if (poll == link::Poll::Bad) {
        wrong = FaultKind::BadHeader;
      } else if (header.tag != (rank.tag ^ op.salt)) {
        wrong = FaultKind::OtherCall;
      } else if (header.length != op.bytes) {
        wrong = FaultKind::BadLength;
      } else if constexpr (Reduce::kRemoteAccess) {
        if (arrival.region != 0) error = Reduce::find_mapped(in, arrival, op.bytes);
        if (error != 0) wrong = FaultKind::Unreadable;
      }
      if (wrong != FaultKind::None) {
        rank.fault = {wrong, in.peer, lane.lane, op.step, op.bytes, header, error};
        return Outcome::Fault;
      }
      if (lane.arrived == 0) fetch_ahead(rank, lane, op);
    }
    return Outcome::Progress;
  }

  /// When one message has come, the others probably have too: fetching their lines together is faster than one by one.
  TUTTI_HD static void fetch_ahead(const RankState& rank, const LaneState& lane, const Instruction& op) {
    for (uint32_t i = op.arrivals.begin + 1; i < op.arrivals.end; ++i) Wire::fetch(rank.in[lane.tables->arrivals[i]]);
  }

  TUTTI_HD static Outcome room_ready(RankState& rank, LaneState& lane, const Instruction& op) {
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      link::OutLink& out = rank.out[lane.tables->outs[i]];
      if (!Wire::can_publish(out)) return wait(lane, Await::Credit, out);
    }
    return op.stage == kNone ? Outcome::Progress : stage_ready(rank, lane, rank.stages[op.stage]);
  }

  TUTTI_HD static Outcome stage_ready(RankState& rank, LaneState& lane, const Stage& stage) {
    const uint64_t* held = stage.held + stage.uses % stage.slots * stage.readers;
    for (uint32_t i = 0; i < stage.readers; ++i) {
      link::OutLink& out = rank.out[stage.outs[i]];
      if (out.acked < held[i]) Wire::refresh(out);
      if (out.acked < held[i]) return wait(lane, Await::Staging, out);
    }
    return Outcome::Progress;
  }

  TUTTI_HD static unsigned char* outgoing(RankState& rank, LaneState& lane, const Instruction& op) {
    if (op.inlined) return lane.small;
    if (op.stage == kNone) return nullptr;
    const Stage& stage = rank.stages[op.stage];
    return stage.base + stage.uses % stage.slots * stage.slot_bytes;
  }

  TUTTI_HD static unsigned char* address(const LaneState& lane, const Ref& ref) {
    return moved(lane.bases[static_cast<uint32_t>(ref.base)], ref.offset);
  }

  [[gnu::always_inline]] TUTTI_HD static Outcome move(const Group& group, RankState& rank, LaneState& lane,
                                                      const Instruction& op, unsigned char* slot) {
    if constexpr (Reduce::kRemoteAccess) {
      if (op.involves_peers) return move_with_peers(group, rank, lane, op, slot);
    }
    return move_segments<false>(group, rank, lane, op, slot);
  }

  /// Zero-copy messages, cooperative copies and direct stores.
  [[gnu::noinline]] TUTTI_HD static Outcome move_with_peers(const Group& group, RankState& rank, LaneState& lane,
                                                            const Instruction& op, unsigned char* slot) {
    if (!op.zcopy_arrivals) return move_message(group, rank, lane, op, slot);
    const uint32_t refused = Reduce::begin_reads(rank, lane, op);
    const Outcome outcome = refused == kNone ? move_message(group, rank, lane, op, slot) : Outcome::Fault;
    const uint32_t lost = Reduce::end_reads(rank, lane, op);
    if (refused == kNone && (lost == kNone || outcome == Outcome::Fault)) return outcome;
    const link::InLink& in = rank.in[lane.tables->arrivals[refused != kNone ? refused : lost]];
    rank.fault = {FaultKind::Revoked, in.peer, lane.lane, op.step, op.bytes, {}, 0};
    return Outcome::Fault;
  }

  TUTTI_HD static Outcome move_message(const Group& group, RankState& rank, LaneState& lane, const Instruction& op,
                                       unsigned char* slot) {
    if (op.stores_direct) {
      Reduce::claim_direct_stores(rank, lane, op);
      const Outcome outcome = move_segments<true>(group, rank, lane, op, nullptr);
      Reduce::finish_direct_stores(rank, lane);
      return outcome;
    }
    if ((op.cooperative || op.offers) && is_cooperative(rank, lane, op)) return copy_tile(rank, lane, op);
    return move_segments<false>(group, rank, lane, op, slot);
  }

  /// kDirect: the result is also stored to `lane.direct_to`, and there is no slot.
  template <bool kDirect>
  [[gnu::always_inline]] TUTTI_HD static Outcome move_segments(const Group& group, RankState& rank, LaneState& lane,
                                                               const Instruction& op, unsigned char* slot) {
    const Tables& tables = *lane.tables;
    for (uint32_t s = op.segments.begin; s < op.segments.end; ++s) {
      const Segment& segment = tables.segments[s];
      const Ref* sources = tables.sources + segment.sources;
      uint32_t message = 0;
      bool by_cma = false;
      for (uint32_t k = 0; k < op.sources; ++k) {
        if (sources[k].base == Base::Message) {
          const link::Arrival& arrival = lane.arrivals[message++];
          lane.pointers[k] = arrival.data + sources[k].offset;
          by_cma = by_cma || arrival.process != 0;
        } else {
          lane.pointers[k] = address(lane, sources[k]);
        }
      }
      unsigned char* to = segment.to.base == Base::None ? nullptr : address(lane, segment.to);
      unsigned char* to_slot = slot == nullptr ? nullptr : slot + segment.at;
      if (!by_cma && !(kDirect && lane.direct_stores > 0)) {
        Reduce::run(group, rank.arithmetic, op, segment, to, to_slot, lane.pointers);
      } else if (kDirect && !by_cma && lane.direct_stores == 1) {
        if constexpr (Reduce::kRemoteAccess) Reduce::store_direct(rank.arithmetic, op, segment, to, lane);
      } else if constexpr (Reduce::kRemoteAccess) {
        const CmaResult result = Reduce::run_tiled(rank.arithmetic, op, segment, to, to_slot, sources, lane);
        if (result.error == 0) continue;
        return unreadable(rank, lane, rank.in[tables.arrivals[op.arrivals.begin + result.message]], op, result.error);
      }
    }
    return Outcome::Progress;
  }

  TUTTI_HD static Outcome unreadable(RankState& rank, const LaneState& lane, const link::InLink& in,
                                     const Instruction& op, int error) {
    rank.fault = {FaultKind::Unreadable, in.peer, lane.lane, op.step, op.bytes, {}, error};
    return Outcome::Fault;
  }

  /// Is it a cooperative copy: is there an offer, or is the message zero-copy from a writer that cooperates?
  TUTTI_HD static bool is_cooperative(const RankState& rank, const LaneState& lane, const Instruction& op) {
    const link::InLink& in = rank.in[lane.tables->arrivals[op.arrivals.begin]];
    const link::Arrival& arrival = lane.arrivals[0];
    if (op.offers) return in.cooperative_reader.phase != link::CooperativeReader::Phase::None;
    return in.cooperative && (in.addresses || arrival.process != 0 || arrival.region != 0);
  }

  /// Copies the next tiles of such a message.
  TUTTI_HD static Outcome copy_tile(RankState& rank, LaneState& lane, const Instruction& op) {
    const Tables& tables = *lane.tables;
    const Segment& segment = tables.segments[op.segments.begin];
    const Ref& source = tables.sources[segment.sources];
    link::InLink& in = rank.in[tables.arrivals[op.arrivals.begin]];
    lane.pointers[0] = lane.arrivals[0].data + source.offset;
    const int error = Reduce::copy_next_tile(in, *rank.shared[static_cast<uint32_t>(segment.to.base)], op,
                                             address(lane, segment.to), lane);
    lane.copying = in.cooperative_reader.phase != link::CooperativeReader::Phase::None;
    if (error > 0) return unreadable(rank, lane, in, op, error);
    return error < 0 ? wait(lane, Await::Message, in) : Outcome::Progress;
  }

  TUTTI_HD static void publish(RankState& rank, LaneState& lane, const Instruction& op, unsigned char* slot) {
    Stage* stage = op.stage == kNone ? nullptr : &rank.stages[op.stage];
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) {
      link::OutLink& out = rank.out[lane.tables->outs[i]];
      if (op.inlined) {
        Wire::publish_inline(out, rank.tag ^ op.salt, lane.small, op.bytes);
      } else if (op.mapped && op.bytes >= out.mapped_threshold) {
        Wire::publish_mapped(out, rank.tag ^ op.salt, *rank.shared[static_cast<uint32_t>(op.zcopy_at.base)],
                             address(lane, op.zcopy_at), op.bytes);
      } else if (op.zcopy && op.bytes >= out.zcopy_threshold && (op.allow_cma || !out.by_cma)) {
        Wire::publish_zcopy(out, rank.tag ^ op.salt, address(lane, op.zcopy_at), op.bytes);
      } else {
        Wire::publish_staged(out, rank.tag ^ op.salt, slot, op.bytes);
        stage->held[stage->uses % stage->slots * stage->readers + (i - op.outs.begin)] = out.next;
      }
    }
    if (stage != nullptr) ++stage->uses;
  }

  TUTTI_HD static void consume(RankState& rank, LaneState& lane, const Instruction& op) {
    const link::Arrival* arrival = lane.arrivals;
    for (uint32_t i = op.arrivals.begin; i < op.arrivals.end; ++i) {
      Wire::consume(rank.in[lane.tables->arrivals[i]], *arrival++);
    }
  }
};

}  // namespace tutti::exec
