#include "exec/compile/direct_store.hpp"

#include <algorithm>
#include <set>

namespace tutti::exec {
namespace {

uint32_t size(Range range) { return range.end - range.begin; }

class Marker {
 public:
  Marker(WindowProgram& program, const Geometry& geometry, LinkTable& links)
      : program_(program), geometry_(geometry), links_(links) {}

  void mark(Range lane) {
    std::set<uint32_t> seen;  // links with an offer in this round: each has at most one
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      Instruction& op = program_.ops[i];
      if (may_offer(lane, i) && seen.insert(in_of(op)).second) {
        op.remote |= kOffersDestination;
        op.direct.ahead = messages_from({lane.begin, i}, peer_of(op));
        op.direct.after = messages_before_store(lane, i);
      }
      if (!may_store_direct(op)) continue;
      op.remote |= kStoresDirect;
      op.direct.nontemporal = geometry_.nontemporal && size(op.outs) == 1 && is_result(i);
      op.direct.received = kNone;
      for (uint32_t out = op.outs.begin; out < op.outs.end; ++out) {
        const Rank reader = links_.reader(program_.outs[out].link);
        op.direct.received = std::min(op.direct.received, messages_from({lane.begin, i + 1}, reader));
      }
    }
  }

 private:
  /// A range of bytes of the output.
  struct Span {
    uint64_t begin = 0, end = 0;
  };

  uint32_t in_of(const Instruction& op) const { return program_.arrivals[op.arrivals.begin]; }
  Rank peer_of(const Instruction& op) const { return links_.writer(in_of(op)); }
  const Segment& first_of(const Instruction& op) const { return program_.segments[op.segments.begin]; }
  Span span_of(const Instruction& op) const {
    const Ref& to = first_of(op).to;
    return {to.offset, to.offset + op.bytes};
  }

  /// Does it copy one long message unchanged to one range of the output that its writer can reach?
  bool may_offer(Range lane, uint32_t i) const {
    const Instruction& op = program_.ops[i];
    const bool one = op.sources == 1 && size(op.arrivals) == 1 && size(op.outs) == 0 && size(op.segments) == 1;
    if (!one || op.bytes < geometry_.rules.direct_store_from || first_of(op).to.base != Base::Output) return false;
    const link::Access& in = links_.in_traits(in_of(op));
    const bool shared = in.mapped && geometry_.shared[static_cast<uint32_t>(Base::Output)];
    if (!in.cooperative || !(in.address || shared)) return false;
    for (uint32_t k = 0; k < program_.ops.size(); ++k) {
      const bool sent = k >= lane.begin && k < lane.end && sends_exactly(program_.ops[k], peer_of(op), span_of(op));
      if (k != i && !sent && touches(program_.ops[k], span_of(op), true)) return false;
    }
    return all_have_pieces(lane, i);
  }

  /// Does it send exactly these bytes to this peer and to no other?
  bool sends_exactly(const Instruction& op, Rank peer, Span span) const {
    if (op.sources != 1 || size(op.outs) != 1 || size(op.segments) != 1) return false;
    const Ref& from = program_.sources[first_of(op).sources];
    return first_of(op).to.base == Base::None && from.base == Base::Input && from.offset == span.begin &&
           op.bytes == span.end - span.begin && links_.reader(program_.outs[op.outs.begin].link) == peer;
  }

  /// Does it read any of these bytes, or (with `stores`) write them?
  bool touches(const Instruction& op, Span span, bool stores) const {
    const auto meets = [&](const Ref& ref, uint64_t bytes) {
      const bool output = ref.base == Base::Output || (ref.base == Base::Input && geometry_.in_place);
      return output && ref.offset < span.end && span.begin < ref.offset + bytes;
    };
    for (uint32_t s = op.segments.begin; s < op.segments.end; ++s) {
      const Segment& segment = program_.segments[s];
      if (stores && meets(segment.to, segment.bytes)) return true;
      for (uint32_t k = 0; k < op.sources; ++k) {
        if (meets(program_.sources[segment.sources + k], segment.bytes)) return true;
      }
    }
    const bool read_in_place = std::any_of(program_.outs.begin() + op.outs.begin, program_.outs.begin() + op.outs.end,
                                           [](const Out& out) { return is_zero_copy(out.delivery); });
    return read_in_place && meets(op.message, op.bytes);
  }

  /// A message without pieces comes in the first round only, so messages could not be counted per round.
  bool all_have_pieces(Range lane, uint32_t end) const {
    return std::all_of(program_.ops.begin() + lane.begin, program_.ops.begin() + end,
                       [](const Instruction& op) { return op.has_pieces; });
  }

  uint32_t messages_from(Range ops, Rank peer) const {
    uint32_t count = 0;
    for (uint32_t k = ops.begin; k < ops.end; ++k) {
      const Range arrivals = program_.ops[k].arrivals;
      for (uint32_t a = arrivals.begin; a < arrivals.end; ++a) count += links_.writer(program_.arrivals[a]) == peer;
    }
    return count;
  }

  /// Messages to the peer of instruction `i`, up to the last one that overlaps the destination of `i`.
  uint32_t messages_before_store(Range lane, uint32_t i) const {
    uint32_t messages = 0, last = 0;
    for (uint32_t k = lane.begin; k < lane.end; ++k) {
      const Instruction& op = program_.ops[k];
      for (uint32_t out = op.outs.begin; out < op.outs.end; ++out) {
        messages += links_.reader(program_.outs[out].link) == peer_of(program_.ops[i]);
      }
      if (k != i && touches(op, span_of(program_.ops[i]), true)) last = messages;
    }
    return last;
  }

  /// Is it a fold whose result is sent zero-copy to all readers from where it is stored?
  bool may_store_direct(const Instruction& op) const {
    const bool sent = size(op.outs) > 0 && op.slot == Slot::None && !op.push_copies && !op.publishes_first;
    return op.sources > 1 && sent && op.bytes >= geometry_.rules.direct_store_from;
  }

  /// Does it store output that this rank does not read again?
  bool is_result(uint32_t i) const {
    const Instruction& op = program_.ops[i];
    if (size(op.segments) != 1 || first_of(op).to.base != Base::Output) return false;
    for (uint32_t k = 0; k < program_.ops.size(); ++k) {
      if (k != i && touches(program_.ops[k], span_of(op), false)) return false;
    }
    return true;
  }

  WindowProgram& program_;
  const Geometry& geometry_;
  LinkTable& links_;
};

}  // namespace

void mark_direct_stores(WindowProgram& program, const Geometry& geometry, LinkTable& links) {
  if (geometry.rules.direct_store_from == link::kNever) return;
  if (program.outs.empty()) return;  // such programs use cooperative copies; a link has one offer at a time
  Marker marker(program, geometry, links);
  for (const Range& lane : program.lanes) marker.mark(lane);
}

void mark_cooperative(WindowProgram& program, LinkTable& links, const DeliveryRules& rules) {
  if (!program.outs.empty()) return;
  for (Instruction& op : program.ops) {
    if (op.bytes < rules.cooperative_from || op.sources != 1 || size(op.arrivals) != 1 || size(op.segments) != 1)
      continue;
    const bool stored = program.segments[op.segments.begin].to.base != Base::None;
    if (stored && links.in_traits(program.arrivals[op.arrivals.begin]).cooperative) op.remote |= kCooperativeCopy;
  }
}

void mark_landing(WindowProgram& program) {
  for (Instruction& op : program.ops) {
    if (op.bytes <= link::kInlineBytes || op.sources != 1 || size(op.arrivals) != 1 || size(op.segments) != 1) continue;
    op.lands = program.segments[op.segments.begin].to.base != Base::None;
  }
}

void mark_zero_copy_arrivals(WindowProgram& program, LinkTable& links, const DeliveryRules& rules) {
  for (Instruction& op : program.ops) {
    for (uint32_t a = op.arrivals.begin; a < op.arrivals.end; ++a) {
      const link::Access& in = links.in_traits(program.arrivals[a]);
      if (may_arrive_zero_copy(op.bytes, in, rules)) op.remote |= kZeroCopyArrivals;
    }
  }
}

}  // namespace tutti::exec
