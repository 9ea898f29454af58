#include <fmt/format.h>

#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {
namespace {

const char* name_of(Buffer buffer) {
  return buffer == Buffer::Input ? "input" : buffer == Buffer::Output ? "output" : "scratch";
}

std::string words_of_block(const RankPlan& plan, Buffer buffer, uint32_t block) {
  const uint32_t count = buffer == Buffer::Scratch ? plan.scratch_blocks : blocks(plan.shape, buffer, plan.rank);
  return count > 1 ? fmt::format("{} block {}", name_of(buffer), block) : name_of(buffer);
}

std::string words_of_piece(const RankPlan& plan, const Piece& piece) {
  std::string text = words_of_block(plan, piece.buffer, piece.block);
  const uint32_t parts = plan.partitions[piece.partition].parts;
  if (piece.last - piece.first == parts) return text;
  if (piece.last - piece.first == 1) return text + fmt::format(" chunk {} of {}", piece.first, parts);
  return text + fmt::format(" chunks {} to {} of {}", piece.first, piece.last - 1, parts);
}

std::string words_of_ranks(std::span<const Rank> ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() <= 4) return fmt::format("ranks {}", fmt::join(ranks, ", "));
  return fmt::format("ranks {}, … ({} of them)", ranks[0], ranks.size());
}

std::string words_of_step(const RankPlan& plan, const Step& step) {
  const std::span<const Piece> pieces(plan.pieces.data() + step.pieces.begin, step.pieces.size());
  const std::span<const Rank> peers(plan.peers.data() + step.peers.begin, step.peers.size());
  switch (step.kind) {
    case StepKind::Copy:
      return "copy to " + words(plan, pieces);
    case StepKind::Send:
      return fmt::format("send {} to {}", words(plan, pieces), words_of_ranks(peers));
    case StepKind::Recv:
      return fmt::format("receive {} from {}", words(plan, pieces), words_of_ranks(peers));
    case StepKind::Reduce:
      return fmt::format("{} {}", step.completes ? "complete" : "reduce", words(plan, pieces));
  }
  return "?";
}

}  // namespace

std::string words(const RankPlan& plan, std::span<const Piece> pieces) {
  if (pieces.empty()) return "nothing";
  std::string text = words_of_piece(plan, pieces[0]);
  if (pieces.size() == 2) text += " + " + words_of_piece(plan, pieces[1]);
  if (pieces.size() > 2) text += fmt::format(" + {} more pieces", pieces.size() - 1);
  return text;
}

std::string words_in_rank(const Model& model, uint32_t step) {
  const uint32_t lane = model.lane_of(step), rank = lane / model.lanes();
  return fmt::format("lane {}, step {} ({})", lane % model.lanes(), step - model.steps_of(lane).begin,
                     words_of_step(model.plans()[rank], model.step(rank, step)));
}

std::string words(const Model& model, uint32_t step) {
  return fmt::format("rank {}, {}", model.rank_of(step), words_in_rank(model, step));
}

std::string words_of_interval(const Model& model, uint32_t first_atom, uint32_t last_atom) {
  const Fraction from = model.bound(first_atom), to = model.bound(last_atom);
  if (from.num == 0 && to.num == to.den) return "the whole window";
  const auto place = [](Fraction f) { return f.den == 1 ? fmt::to_string(f.num) : fmt::format("{}/{}", f.num, f.den); };
  return fmt::format("{} to {} of the window", place(from), place(to));
}

std::string words_of_location(const Model& model, uint32_t rank, uint32_t location) {
  const Buffer last_first[] = {Buffer::Scratch, Buffer::Output, Buffer::Input};
  for (const Buffer buffer : last_first) {
    const uint32_t start = model.location(rank, buffer, 0, false);
    if (location < start) continue;
    const uint32_t block = (location - start) / model.atoms(), atom = (location - start) % model.atoms();
    return fmt::format("{}, {}", words_of_block(model.plans()[rank], buffer, block),
                       words_of_interval(model, atom, atom + 1));
  }
  return "?";
}

}  // namespace tutti::plan::verifier
