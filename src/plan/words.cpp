#include "plan/words.hpp"

#include <fmt/format.h>

#include "plan/names.hpp"

namespace tutti::plan {

std::string in_words(const RankPlan& plan, const Piece& piece) {
  std::string words = kBufferNames[static_cast<int>(piece.buffer)];
  const bool scratch = piece.buffer == Buffer::Scratch;
  const uint32_t count = scratch ? plan.scratch_blocks : blocks(plan.shape, piece.buffer, plan.rank);
  if (piece.block > 0 || count > 1) words += fmt::format("#{}", piece.block);
  const uint32_t parts = plan.partitions[piece.partition].parts;
  if (parts == 1) return words;
  words += fmt::format("[{}", piece.first);
  if (piece.last - piece.first > 1) words += fmt::format("-{}", piece.last - 1);
  return words + fmt::format("/{}]", parts);
}

std::string in_words(const RankPlan& plan, Range pieces) {
  std::string words;
  for (uint32_t i = pieces.begin; i < pieces.end; ++i) {
    if (i > pieces.begin) words += ",";
    words += in_words(plan, plan.pieces[i]);
  }
  return words.empty() ? "nothing" : words;
}

std::string in_words(const RankPlan& plan, const Step& step) {
  std::string words = step.after == kNone ? "" : fmt::format("after {}: ", step.after);
  const std::string pieces = in_words(plan, step.pieces);
  if (step.kind == StepKind::Recv) return words + fmt::format("recv {} < {}", pieces, plan.peers[step.peers.begin]);
  if (step.kind == StepKind::Send) {
    constexpr const char* kVerbs[] = {"send", "lend out of place", "lend"};
    words += fmt::format("{} {} >", kVerbs[static_cast<int>(step.lend)], pieces);
    for (uint32_t i = step.peers.begin; i < step.peers.end; ++i) words += fmt::format(" {}", plan.peers[i]);
    return words;
  }
  words += fmt::format("{} {} =", step.kind == StepKind::Copy ? "copy" : step.completes ? "complete" : "fold", pieces);
  for (uint32_t i = step.operands.begin; i < step.operands.end; ++i) {
    const Operand& operand = plan.operands[i];
    words += i > step.operands.begin ? " + " : " ";
    words += operand.peer == kNoRank ? in_words(plan, operand.pieces) : fmt::format("<{}", operand.peer);
  }
  return words;
}

}  // namespace tutti::plan
