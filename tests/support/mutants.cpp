#include "support/mutants.hpp"

#include <algorithm>

namespace tutti::test {
namespace {

using plan::Buffer;
using plan::kNone;
using plan::Lane;
using plan::Lend;
using plan::Operand;
using plan::Piece;
using plan::Range;
using plan::RankPlan;
using plan::Step;
using plan::StepKind;

uint32_t below(uint32_t bound, std::mt19937_64& random) { return static_cast<uint32_t>(random() % bound); }

uint32_t lane_of(const RankPlan& plan, uint32_t step) {
  uint32_t lane = 0;
  while (step >= plan.lanes[lane].steps.end) ++lane;
  return lane;
}

/// Makes the tables' tail hold a copy of a range, so that changing it changes one step only.
template <class T>
Range own_copy(std::vector<T>& table, Range range) {
  const auto begin = static_cast<uint32_t>(table.size());
  for (uint32_t i = range.begin; i < range.end; ++i) table.push_back(T(table[i]));
  return {begin, static_cast<uint32_t>(table.size())};
}

void drop_step(RankPlan& plan, uint32_t at) {
  plan.steps.erase(plan.steps.begin() + at);
  for (Lane& lane : plan.lanes) {
    if (lane.steps.begin > at) --lane.steps.begin;
    if (lane.steps.end > at) --lane.steps.end;
  }
  for (Step& step : plan.steps) {
    if (step.after == at) step.after = kNone;
    if (step.after != kNone && step.after > at) --step.after;
  }
}

void double_step(RankPlan& plan, uint32_t at) {
  const uint32_t owner = lane_of(plan, at);
  plan.steps.insert(plan.steps.begin() + at, Step(plan.steps[at]));
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (lane > owner) ++plan.lanes[lane].steps.begin;
    if (lane >= owner) ++plan.lanes[lane].steps.end;
  }
  for (Step& step : plan.steps) {
    if (step.after != kNone && step.after >= at) ++step.after;
  }
}

bool swap_steps(RankPlan& plan, uint32_t at) {
  if (at + 1 >= plan.lanes[lane_of(plan, at)].steps.end) return false;
  std::swap(plan.steps[at], plan.steps[at + 1]);
  for (Step& step : plan.steps) {
    if (step.after == at || step.after == at + 1) step.after = step.after == at ? at + 1 : at;
  }
  return true;
}

Rank another(const RankPlan& plan, Rank than, std::mt19937_64& random) {
  std::vector<Rank> others;
  for (Rank r = 0; r < plan.shape.ranks; ++r) {
    if (r != than && r != plan.rank) others.push_back(r);
  }
  return others.empty() ? kNoRank : others[below(static_cast<uint32_t>(others.size()), random)];
}

bool redirect(RankPlan& plan, Step& step, std::mt19937_64& random) {
  if (step.peers.size() > 0) {
    step.peers = own_copy(plan.peers, step.peers);
    Rank& peer = plan.peers[step.peers.begin + below(step.peers.size(), random)];
    const Rank other = another(plan, peer, random);
    if (other == kNoRank) return false;
    peer = other;
    return true;
  }
  if (step.operands.size() == 0) return false;
  step.operands = own_copy(plan.operands, step.operands);
  Operand& operand = plan.operands[step.operands.begin + below(step.operands.size(), random)];
  const Rank other = operand.peer == kNoRank ? kNoRank : another(plan, operand.peer, random);
  if (other == kNoRank) return false;
  operand.peer = other;
  return true;
}

/// Another run of chunks of the same block, another block, or another buffer that may stand there.
bool shift(const RankPlan& plan, Piece& piece, bool written, std::mt19937_64& random) {
  const uint32_t parts = plan.partitions[piece.partition].parts;
  const auto count = [&](Buffer buffer) {
    return buffer == Buffer::Scratch ? plan.scratch_blocks : blocks(plan.shape, buffer, plan.rank);
  };
  switch (random() % 4) {
    case 0:
      if (piece.last == parts) return false;
      ++piece.first, ++piece.last;
      return true;
    case 1:
      if (piece.first == 0) return false;
      --piece.first, --piece.last;
      return true;
    case 2:
      if (count(piece.buffer) < 2) return false;
      piece.block = (piece.block + 1 + below(count(piece.buffer) - 1, random)) % count(piece.buffer);
      return true;
    default: {
      const auto buffer = static_cast<Buffer>(random() % plan::kBuffers);
      if (buffer == piece.buffer || piece.block >= count(buffer) || (written && buffer == Buffer::Input)) return false;
      piece.buffer = buffer;
      return true;
    }
  }
}

bool shift_a_piece(RankPlan& plan, Step& step, std::mt19937_64& random) {
  const uint32_t which = below(step.operands.size() + 1, random);
  Range* range = &step.pieces;
  if (which < step.operands.size()) {
    step.operands = own_copy(plan.operands, step.operands);
    range = &plan.operands[step.operands.begin + which].pieces;
  }
  if (range->size() == 0) return false;
  *range = own_copy(plan.pieces, *range);
  const bool written = which == step.operands.size() && step.kind != StepKind::Send;
  return shift(plan, plan.pieces[range->begin + below(range->size(), random)], written, random);
}

bool change_operands(RankPlan& plan, Step& step, bool doubles, std::mt19937_64& random) {
  if (step.kind != StepKind::Reduce || (!doubles && step.operands.size() < 2)) return false;
  step.operands = own_copy(plan.operands, step.operands);
  const uint32_t at = step.operands.begin + below(step.operands.size(), random);
  if (doubles) {
    plan.operands.push_back(Operand(plan.operands[at]));
    ++step.operands.end;
  } else {
    plan.operands.erase(plan.operands.begin() + at);
    --step.operands.end;
  }
  return true;
}

bool claim_more(Step& step, std::mt19937_64& random) {
  if (step.kind != StepKind::Send || step.lend == Lend::Always) return false;
  step.lend = step.lend == Lend::OutOfPlace || random() % 2 == 0 ? Lend::Always : Lend::OutOfPlace;
  return true;
}

}  // namespace

const char* name_of(Mutation mutation) {
  constexpr const char* kNames[kMutations] = {"step dropped",  "step doubled",    "steps swapped",   "peer redirected",
                                              "piece shifted", "operand dropped", "operand doubled", "complete claimed",
                                              "lend claimed",  "after dropped"};
  return kNames[static_cast<int>(mutation)];
}

bool mutate(std::vector<RankPlan>& plans, Mutation mutation, std::mt19937_64& random) {
  RankPlan& plan = plans[below(static_cast<uint32_t>(plans.size()), random)];
  if (plan.steps.empty()) return false;
  const uint32_t at = below(static_cast<uint32_t>(plan.steps.size()), random);
  Step& step = plan.steps[at];
  switch (mutation) {
    case Mutation::DropStep:
      drop_step(plan, at);
      return true;
    case Mutation::DoubleStep:
      double_step(plan, at);
      return true;
    case Mutation::SwapSteps:
      return swap_steps(plan, at);
    case Mutation::RedirectPeer:
      return redirect(plan, step, random);
    case Mutation::ShiftPiece:
      return shift_a_piece(plan, step, random);
    case Mutation::DropOperand:
    case Mutation::DoubleOperand:
      return change_operands(plan, step, mutation == Mutation::DoubleOperand, random);
    case Mutation::ClaimComplete:
      if (step.kind != StepKind::Reduce || step.completes) return false;
      return step.completes = true;
    case Mutation::ClaimLend:
      return claim_more(step, random);
    case Mutation::DropAfter:
      if (step.after == kNone) return false;
      step.after = kNone;
      return true;
  }
  return false;
}

}  // namespace tutti::test
