#include "exec/compile/fuse.hpp"

#include <algorithm>

namespace tutti::exec {
namespace {

using plan::RankPlan;
using plan::Step;
using plan::StepKind;

bool same_pieces(const RankPlan& plan, plan::Range a, plan::Range b) {
  const auto begin = plan.pieces.begin();
  return std::equal(begin + a.begin, begin + a.end, begin + b.begin, begin + b.end);
}

/// The step after step `s` of a lane if it sends the result of `s`; else null.
const Step* send_of(const RankPlan& plan, const plan::Lane& lane, uint32_t s) {
  if (s + 1 == lane.steps.end || plan.steps[s].kind == StepKind::Send) return nullptr;
  const Step& next = plan.steps[s + 1];
  const bool fits =
      next.kind == StepKind::Send && next.after == plan::kNone && same_pieces(plan, plan.steps[s].pieces, next.pieces);
  return fits ? &next : nullptr;
}

/// Pieces of a block that is cut in two ways are taken to overlap.
bool overlap(const plan::Piece& a, const plan::Piece& b) {
  const bool apart = a.partition == b.partition && (a.last <= b.first || b.last <= a.first);
  return a.buffer == b.buffer && a.block == b.block && !apart;
}

/// Is what this step stores left alone? A message may be read there until the call ends, then. Scratch is used again in
/// a later round.
bool stays(const RankPlan& plan, const Step& step) {
  const auto of_step = plan.pieces.begin() + step.pieces.begin;
  if (std::any_of(of_step, of_step + step.pieces.size(),
                  [](const plan::Piece& piece) { return piece.buffer == plan::Buffer::Scratch; }))
    return false;
  return std::all_of(plan.steps.begin(), plan.steps.end(), [&](const Step& other) {
    if (&other == &step || other.kind == StepKind::Send) return true;
    const auto begin = plan.pieces.begin();
    return std::all_of(begin + step.pieces.begin, begin + step.pieces.end, [&](const plan::Piece& mine) {
      return std::none_of(begin + other.pieces.begin, begin + other.pieces.end,
                          [&](const plan::Piece& theirs) { return overlap(mine, theirs); });
    });
  });
}

/// The step after step `s` of a lane if `s` sends what it copies; else null.
const Step* copy_of(const RankPlan& plan, const plan::Lane& lane, uint32_t s) {
  if (s + 1 == lane.steps.end || plan.steps[s].kind != StepKind::Send) return nullptr;
  const Step& next = plan.steps[s + 1];
  if (plan.steps[s].after != plan::kNone || next.after != plan::kNone || next.operands.size() != 1) return nullptr;
  const plan::Operand& operand = plan.operands[next.operands.begin];
  const bool fits = operand.peer == kNoRank && same_pieces(plan, plan.steps[s].pieces, operand.pieces);
  return fits && stays(plan, next) ? &next : nullptr;
}

/// Calls visit(piece) for every piece that a step reads, except for sends that are fused to the step before them.
template <class Visit>
void each_piece_read(const RankPlan& plan, Visit&& visit) {
  const auto visit_all = [&](plan::Range pieces) {
    for (uint32_t p = pieces.begin; p < pieces.end; ++p) visit(plan.pieces[p]);
  };
  for (const plan::Lane& lane : plan.lanes) {
    for (uint32_t s = lane.steps.begin; s < lane.steps.end; ++s) {
      const Step& step = plan.steps[s];
      const bool fused = s > lane.steps.begin && send_of(plan, lane, s - 1) != nullptr;
      if (step.kind == StepKind::Send && !fused) visit_all(step.pieces);
      for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) visit_all(plan.operands[o].pieces);
    }
  }
}

/// Which scratch blocks are read.
std::vector<bool> scratch_read(const RankPlan& plan) {
  std::vector<bool> read(plan.scratch_blocks, false);
  each_piece_read(plan, [&](const plan::Piece& piece) {
    if (piece.buffer == plan::Buffer::Scratch) read[piece.block] = true;
  });
  return read;
}

/// True if these pieces are not read any more once they are sent.
bool only_sent(const RankPlan& plan, plan::Range pieces, const std::vector<bool>& read) {
  return std::all_of(
      plan.pieces.begin() + pieces.begin, plan.pieces.begin() + pieces.end,
      [&](const plan::Piece& piece) { return piece.buffer == plan::Buffer::Scratch && !read[piece.block]; });
}

}  // namespace

std::vector<std::vector<Draft>> fuse(const RankPlan& plan, const std::function<bool(const Step&)>& with_copy) {
  std::vector<std::vector<Draft>> lanes;
  const std::vector<bool> read = scratch_read(plan);
  for (const plan::Lane& lane : plan.lanes) {
    auto& drafts = lanes.emplace_back();
    for (uint32_t s = lane.steps.begin; s < lane.steps.end; ++s) {
      const Step& step = plan.steps[s];
      const uint32_t index = s - lane.steps.begin;
      if (const Step* copy = copy_of(plan, lane, s); copy != nullptr && with_copy(step)) {
        drafts.push_back({.step = copy, .send = &step, .index = index, .store = true});
        ++s;
        continue;
      }
      Draft draft{.step = &step, .index = index, .store = step.kind != StepKind::Send};
      if (const Step* send = send_of(plan, lane, s)) {
        draft.send = send;
        draft.store = send->pieces.size() != 0 && !only_sent(plan, send->pieces, read);
        ++s;
      }
      if (step.kind == StepKind::Send) draft.send = &step;
      drafts.push_back(draft);
    }
  }
  return lanes;
}

std::vector<bool> output_read(const RankPlan& plan) {
  std::vector<bool> read(plan::blocks(plan.shape, plan::Buffer::Output, plan.rank), false);
  each_piece_read(plan, [&](const plan::Piece& piece) {
    if (piece.buffer == plan::Buffer::Output) read[piece.block] = true;
  });
  return read;
}

}  // namespace tutti::exec
