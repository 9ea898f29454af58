#include "plan/verify/structure.hpp"

#include <algorithm>

#include "plan/verify/reject.hpp"

namespace tutti::plan::verifier {
namespace {

__extension__ using Wide = unsigned __int128;

bool less(Fraction a, Fraction b) {
  return static_cast<uint64_t>(a.num) * b.den < static_cast<uint64_t>(b.num) * a.den;
}

bool inside(Range range, size_t size) { return range.begin <= range.end && range.end <= size; }

/// Is b − a zero or at least 1/grain?
bool wide_enough(Fraction a, Fraction b, uint32_t grain) {
  const uint64_t width = static_cast<uint64_t>(b.num) * a.den - static_cast<uint64_t>(a.num) * b.den;
  return width == 0 || static_cast<Wide>(width) * grain >= static_cast<Wide>(a.den) * b.den;
}

void check_fractions(const RankPlan& plan, uint32_t index) {
  const Partition& p = plan.partitions[index];
  if (p.bounds >= plan.fractions.size() || plan.fractions.size() - p.bounds <= p.parts) {
    reject("rank {}: partition {} names fractions outside the table of {}", plan.rank, index, plan.fractions.size());
  }
  const std::span<const Fraction> bounds(&plan.fractions[p.bounds], p.parts + 1);
  for (const Fraction f : bounds) {
    if (f.den == 0 || f.num > f.den) {
      reject("rank {}: partition {} has the fraction {}/{}, which is not from 0 to 1", plan.rank, index, f.num, f.den);
    }
  }
  if (bounds.front().num != 0 || bounds.back().num != bounds.back().den) {
    reject("rank {}: partition {} does not go from 0 to 1", plan.rank, index);
  }
  for (size_t i = 1; i < bounds.size(); ++i) {
    if (less(bounds[i], bounds[i - 1])) reject("rank {}: partition {} is not in order at {}", plan.rank, index, i);
    if (!wide_enough(bounds[i - 1], bounds[i], plan.grain)) {
      reject("rank {}: partition {} has a chunk smaller than 1/{}, the plan's grain", plan.rank, index, plan.grain);
    }
  }
}

void check_partitions(const RankPlan& plan) {
  if (plan.grain == 0) reject("rank {}: the grain is 0", plan.rank);
  for (uint32_t i = 0; i < plan.partitions.size(); ++i) {
    const Partition& p = plan.partitions[i];
    if (p.parts == 0 || p.parts > kMaxParts) {
      reject("rank {}: partition {} has {} parts; 1 to {} are allowed", plan.rank, i, p.parts, kMaxParts);
    }
    if (p.bounds != kNone) {
      check_fractions(plan, i);
    } else if (p.parts > plan.grain) {
      reject("rank {}: partition {} has {} equal chunks, more than the plan's grain {}", plan.rank, i, p.parts,
             plan.grain);
    }
  }
}

/// Sums the sizes of the tables, so that no later check meets more than kMaxEntries.
class Entries {
 public:
  void add(uint64_t more) {
    total_ += more;
    if (total_ > kMaxEntries) too_large("over {} steps and pieces", kMaxEntries);
  }

 private:
  uint64_t total_ = 0;
};

/// The checks of one step, and its position for error texts.
class StepCheck {
 public:
  StepCheck(const RankPlan& plan, uint32_t lane, uint32_t index, Entries& entries)
      : plan_(plan), step_(plan.steps[index]), lane_(lane), index_(index), entries_(entries) {}

  void run() const {
    if (static_cast<uint8_t>(step_.kind) > static_cast<uint8_t>(StepKind::Reduce)) wrong("is of no known kind");
    if (static_cast<uint8_t>(step_.lend) > static_cast<uint8_t>(Lend::Always)) wrong("has no known lend claim");
    if (static_cast<uint8_t>(step_.shape) > static_cast<uint8_t>(FoldShape::Tree)) wrong("has no known fold shape");
    if (!inside(step_.pieces, plan_.pieces.size())) wrong("names pieces outside the table");
    if (!inside(step_.peers, plan_.peers.size())) wrong("names peers outside the table");
    if (!inside(step_.operands, plan_.operands.size())) wrong("names operands outside the table");
    entries_.add(1 + uint64_t{step_.pieces.size()} + step_.peers.size() + step_.operands.size());
    check_kind();
    const bool writes = step_.kind != StepKind::Send;
    for (uint32_t i = step_.pieces.begin; i < step_.pieces.end; ++i) check_piece(plan_.pieces[i], writes);
    for (uint32_t i = step_.peers.begin; i < step_.peers.end; ++i) check_peer(plan_.peers[i]);
    check_distinct_peers();
    for (uint32_t i = step_.operands.begin; i < step_.operands.end; ++i) check_operand(plan_.operands[i]);
    check_after();
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> text, Args&&... args) const {
    reject("rank {}, lane {}, step {}: {}", plan_.rank, lane_, index_ - plan_.lanes[lane_].steps.begin,
           fmt::format(text, std::forward<Args>(args)...));
  }

  void check_kind() const {
    const uint32_t peers = step_.peers.size(), operands = step_.operands.size();
    if (step_.completes && step_.kind != StepKind::Reduce) wrong("claims to complete a fold, but is none");
    if (step_.lend != Lend::Never && step_.kind != StepKind::Send) wrong("claims to lend, but sends nothing");
    switch (step_.kind) {
      case StepKind::Copy:
        if (operands != 1 || peers != 0) wrong("a copy has one source and no peer");
        if (plan_.operands[step_.operands.begin].peer != kNoRank) wrong("a copy's source is local");
        return;
      case StepKind::Send:
        if (operands != 0 || peers == 0) wrong("a send has peers and no operands");
        return;
      case StepKind::Recv:
        if (operands != 0 || peers != 1) wrong("a receive has one peer and no operands");
        return;
      case StepKind::Reduce:
        if (operands == 0 || peers != 0) wrong("a fold has operands and no peers");
        if (!reduces(plan_.shape.collective)) wrong("a fold in {}", name_of(plan_.shape.collective));
        return;
    }
  }

  void check_piece(const Piece& piece, bool written) const {
    if (static_cast<uint8_t>(piece.buffer) >= kBuffers) wrong("names a buffer that does not exist");
    const bool scratch = piece.buffer == Buffer::Scratch;
    const uint32_t count = scratch ? plan_.scratch_blocks : blocks(plan_.shape, piece.buffer, plan_.rank);
    if (piece.block >= count) {
      wrong("names block {} of its {}, which has {}", piece.block,
            scratch ? "scratch" : (piece.buffer == Buffer::Input ? "input" : "output"), count);
    }
    if (piece.partition >= plan_.partitions.size()) wrong("names partition {}, which does not exist", piece.partition);
    if (piece.first >= piece.last || piece.last > plan_.partitions[piece.partition].parts) {
      wrong("names chunks [{}, {}) of a partition of {}", piece.first, piece.last,
            plan_.partitions[piece.partition].parts);
    }
    if (written && piece.buffer == Buffer::Input) wrong("writes to the input");
  }

  void check_peer(Rank peer) const {
    if (peer < 0 || peer >= plan_.shape.ranks) wrong("names rank {} as a peer, of {} ranks", peer, plan_.shape.ranks);
    if (peer == plan_.rank) wrong("names its own rank as a peer");
  }

  void check_distinct_peers() const {
    std::vector<Rank> peers(plan_.peers.begin() + step_.peers.begin, plan_.peers.begin() + step_.peers.end);
    for (uint32_t i = step_.operands.begin; i < step_.operands.end; ++i) {
      if (plan_.operands[i].peer != kNoRank) peers.push_back(plan_.operands[i].peer);
    }
    std::sort(peers.begin(), peers.end());
    const auto twice = std::adjacent_find(peers.begin(), peers.end());
    if (twice != peers.end()) wrong("names rank {} twice", *twice);  // a step takes at most one message of a link
  }

  void check_operand(const Operand& operand) const {
    if (!inside(operand.pieces, plan_.pieces.size())) wrong("has an operand with pieces outside the table");
    if (operand.peer != kNoRank) {
      check_peer(operand.peer);
      if (operand.pieces.size() != 0) wrong("has an operand that is both local and from rank {}", operand.peer);
    }
    entries_.add(operand.pieces.size());
    for (uint32_t i = operand.pieces.begin; i < operand.pieces.end; ++i) check_piece(plan_.pieces[i], false);
  }

  void check_after() const {
    if (step_.after == kNone) return;
    if (step_.after >= plan_.steps.size()) wrong("waits for a step that does not exist");
    const Range own = plan_.lanes[lane_].steps;
    if (step_.after >= own.begin && step_.after < own.end) wrong("waits for a step of its own lane");
  }

  const RankPlan& plan_;
  const Step& step_;
  uint32_t lane_, index_;
  Entries& entries_;
};

void check_rank(const RankPlan& plan, Entries& entries) {
  check_partitions(plan);
  for (const Partition& p : plan.partitions) entries.add(p.parts);
  uint32_t at = 0;
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const Range steps = plan.lanes[lane].steps;
    if (steps.begin != at || !inside(steps, plan.steps.size())) {
      reject("rank {}: lane {} has steps [{}, {}), but the table of {} continues at {}", plan.rank, lane, steps.begin,
             steps.end, plan.steps.size(), at);
    }
    for (at = steps.begin; at < steps.end; ++at) StepCheck(plan, lane, at, entries).run();
  }
  if (at != plan.steps.size()) reject("rank {}: steps from {} on are in no lane", plan.rank, at);
}

}  // namespace

void check_structure(std::span<const RankPlan> plans) {
  if (plans.empty() || plans.size() > kMaxRanks) reject("{} ranks; 1 to {} can be proven", plans.size(), kMaxRanks);
  const RankPlan& first = plans.front();
  const auto collective = static_cast<int>(first.shape.collective);
  if (collective >= kCollectives || first.shape.collective == Collective::SendRecv) {
    reject("plans of {} cannot be proven: what they should do is known only to their caller",
           name_of(first.shape.collective));
  }
  if (first.lanes.size() > kMaxLanes) {
    reject("rank 0 has {} lanes; a rank has at most {}", first.lanes.size(), kMaxLanes);
  }
  if (first.lanes.size() * plans.size() > kMaxAllLanes) {
    reject("{} ranks with {} lanes each; {} lanes altogether can be proven", plans.size(), first.lanes.size(),
           kMaxAllLanes);
  }
  Entries entries;
  for (size_t r = 0; r < plans.size(); ++r) {
    const RankPlan& plan = plans[r];
    if (plan.rank != static_cast<Rank>(r)) reject("plan {} is that of rank {}", r, plan.rank);
    if (plan.shape.collective != first.shape.collective || plan.shape.ranks != static_cast<Rank>(plans.size())) {
      reject("rank {}: plan of {} for {} ranks among {} plans of {}", r, name_of(plan.shape.collective),
             plan.shape.ranks, plans.size(), name_of(first.shape.collective));
    }
    if (plan.grain != first.grain) reject("rank {}: grain {}, where rank 0 has {}", r, plan.grain, first.grain);
    if (plan.lanes.size() != first.lanes.size()) {
      reject("rank {}: {} lanes, where rank 0 has {}", r, plan.lanes.size(), first.lanes.size());
    }
    check_rank(plan, entries);
  }
}

}  // namespace tutti::plan::verifier
