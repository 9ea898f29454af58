#include "plan/plan.hpp"

#include "base/hash.hpp"

namespace tutti::plan {

uint32_t blocks(Collective collective, Rank ranks, Buffer buffer, Rank rank) {
  const auto n = static_cast<uint32_t>(ranks);
  const bool input = buffer == Buffer::Input;
  switch (collective) {
    case Collective::AllReduce:
      return 1;
    case Collective::AllGather:
      return input ? 1 : n;
    case Collective::ReduceScatter:
      return input ? n : 1;
    case Collective::AllToAll:
      return n;
    case Collective::Broadcast:
      return input && rank != 0 ? 0 : 1;
    case Collective::Reduce:
      return input || rank == 0 ? 1 : 0;
    case Collective::Gather:
      return input ? 1 : (rank == 0 ? n : 0);
    case Collective::Scatter:
      return input ? (rank == 0 ? n : 0) : 1;
    case Collective::SendRecv:
      return n;
    case Collective::Barrier:
      return 0;
  }
  return 0;
}

Fraction boundary(const RankPlan& plan, uint32_t partition, uint32_t index) {
  const Partition& p = plan.partitions[partition];
  return p.bounds == kNone ? Fraction{index, p.parts} : plan.fractions[p.bounds + index];
}

uint64_t cut(Fraction f, uint64_t count, uint32_t element_bytes, uint32_t grain) {
  constexpr uint32_t kRounding = 128;
  if (f.num == 0) return 0;
  if (f.num >= f.den) return count;
  const bool coarse = count / grain >= kRounding / element_bytes;
  const uint64_t unit = coarse ? kRounding / element_bytes : 1;
  // count·num may need 96 bits: divide the upper half first and carry its remainder (< 2^32) down.
  const uint64_t high = (count >> 32) * f.num, low = (count & 0xffffffff) * f.num;
  const uint64_t rest = high % f.den;
  const uint64_t quotient = ((high / f.den) << 32) + low / f.den + ((rest << 32) + low % f.den) / f.den;
  return quotient / unit * unit;
}

uint64_t hash_of(const RankPlan& plan) {
  Hash hash;
  hash.add(static_cast<uint64_t>(plan.shape.collective)).add(static_cast<uint64_t>(plan.shape.ranks));
  hash.add(static_cast<uint64_t>(plan.rank)).add(plan.scratch_blocks).add(plan.grain);
  for (const Lane& lane : plan.lanes) hash.add(lane.steps.begin).add(lane.steps.end);
  for (const Step& s : plan.steps) {
    hash.add(static_cast<uint64_t>(s.kind) | static_cast<uint64_t>(s.shape) << 8 |
             static_cast<uint64_t>(s.completes) << 16 | static_cast<uint64_t>(s.lend) << 24);
    for (const Range& range : {s.pieces, s.peers, s.operands}) hash.add(range.begin).add(range.end);
    hash.add(s.after);
  }
  for (const Piece& p : plan.pieces) {
    hash.add(static_cast<uint64_t>(p.buffer) << 32 | p.block).add(p.partition);
    hash.add(p.first).add(p.last);
  }
  for (const Rank peer : plan.peers) hash.add(static_cast<uint64_t>(peer));
  for (const Operand& o : plan.operands) {
    hash.add(static_cast<uint64_t>(o.peer)).add(o.pieces.begin).add(o.pieces.end);
  }
  for (const Partition& p : plan.partitions) hash.add(p.parts).add(p.bounds);
  for (const Fraction& f : plan.fractions) hash.add(f.num).add(f.den);
  return hash.value();
}

uint64_t hash_of(std::span<const RankPlan> plans) {
  Hash hash;
  for (const RankPlan& plan : plans) hash.add(hash_of(plan));
  return hash.value();
}

}  // namespace tutti::plan
