#include "exec/compile/accepts.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace tutti::exec {
namespace {

using plan::Buffer;
using plan::RankPlan;
using plan::Step;
using plan::StepKind;

/// The peers of a step, each as often as the step names it.
std::multiset<Rank> peers_of(const RankPlan& plan, plan::Range range) {
  return {plan.peers.begin() + range.begin, plan.peers.begin() + range.end};
}

bool only_from(const RankPlan& plan, plan::Range pieces, Buffer buffer) {
  return std::all_of(plan.pieces.begin() + pieces.begin, plan.pieces.begin() + pieces.end,
                     [buffer](const plan::Piece& piece) { return piece.buffer == buffer; });
}

/// True if each rank but this one is among `peers` once.
bool each_other_once(const RankPlan& plan, const std::multiset<Rank>& peers) {
  const std::set<Rank> different(peers.begin(), peers.end());
  return peers.size() == different.size() && different.size() + 1 == static_cast<size_t>(plan.shape.ranks) &&
         !different.contains(plan.rank);
}

/// The peers of a plan's steps.
struct Exchange {
  std::multiset<Rank> owners;   ///< that are sent something before anything is folded
  std::multiset<Rank> folded;   ///< whose messages are folded, in one step
  std::multiset<Rank> readers;  ///< that are sent what was folded
  std::multiset<Rank> senders;  ///< whose messages are received
  bool copies = false, sends_input_alone = true;
};

/// Returns why a switch cannot take the place of these steps.
std::string read_exchange(const RankPlan& plan, Exchange& all) {
  for (const Step& step : plan.steps) {
    const std::multiset<Rank> peers = peers_of(plan, step.peers);
    switch (step.kind) {
      case StepKind::Copy:
        all.copies = true;
        break;
      case StepKind::Send:
        if (!all.senders.empty()) return "it sends on what it has received";
        if (all.folded.empty() && !only_from(plan, step.pieces, Buffer::Input)) all.sends_input_alone = false;
        (all.folded.empty() ? all.owners : all.readers).insert(peers.begin(), peers.end());
        break;
      case StepKind::Recv:
        all.senders.insert(peers.begin(), peers.end());
        break;
      case StepKind::Reduce:
        if (!all.folded.empty() || !step.completes) return "it folds in several steps";
        for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
          if (plan.operands[o].peer != kNoRank) all.folded.insert(plan.operands[o].peer);
        }
        break;
    }
  }
  return "";
}

/// Why the peers are not those of the form.
std::string why_not_form(const RankPlan& plan, const Exchange& all, MultimemForm form) {
  const bool folds = form != MultimemForm::ToAll, sends = form != MultimemForm::Fold;
  if (folds && all.copies) return "it copies, where a switch folds";
  if (folds && !all.sends_input_alone) return "it sends what is not input";
  const auto blocks = [&](Buffer buffer) { return plan::blocks(plan.shape, buffer, plan.rank); };
  const auto ranks = static_cast<uint32_t>(plan.shape.ranks);
  if (blocks(Buffer::Input) != (sends ? 1 : ranks) || blocks(Buffer::Output) != (folds ? 1 : ranks)) {
    return "not everyone needs the same of everyone";
  }
  const auto right = [&](const std::multiset<Rank>& peers, bool full) {
    return full ? each_other_once(plan, peers) : peers.empty();
  };
  if (!right(all.owners, true) || !right(all.folded, folds) || !right(all.senders, sends) ||
      !right(all.readers, folds && sends)) {
    return "not everyone folds a part, or sends it, for everyone";
  }
  return "";
}

}  // namespace

/// One message from each rank to each other, all of them sent before any is received, and none folded. A reader must
/// know where in the writer's staging memory its message is: all read the same, or each has a part of its own. That
/// follows from what all ranks know: whether the input has blocks for them.
std::string why_not_copies(const RankPlan& plan) {
  if (plan.shape.ranks < 2) return "there is nobody to copy from";
  const auto folds = [](const Step& step) { return step.kind == StepKind::Reduce; };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), folds)) return "it folds, which copy engines cannot";
  if (plan.lanes.size() != 1 || plan.scratch_blocks > 0) return "it has several lanes or needs scratch memory";
  const auto others = static_cast<size_t>(plan.shape.ranks - 1);
  const bool has_blocks = others > 1 && plan::blocks(plan.shape, Buffer::Input, plan.rank) > 1;
  bool divided = false;  // in another way than readers think
  std::multiset<Rank> readers, writers;
  for (const Step& step : plan.steps) {
    const std::multiset<Rank> peers = peers_of(plan, step.peers);
    if (step.kind == StepKind::Recv) writers.insert(peers.begin(), peers.end());
    if (step.kind != StepKind::Send) continue;
    if (!writers.empty()) return "it sends on what it has received";
    if (peers.size() != 1 && peers.size() != others) return "a message goes to some of the ranks";
    divided = divided || (has_blocks ? peers.size() > 1 : peers.size() < others);
    readers.insert(peers.begin(), peers.end());
  }
  if (!each_other_once(plan, readers) || !each_other_once(plan, writers)) {
    return "not every rank sends one message to every other";
  }
  return !divided     ? ""
         : has_blocks ? "a message goes to all readers, though each has a block of its own"
                      : "each reader is sent a message of its own, though all are sent the same";
}

std::string read_multimem_form(const RankPlan& plan, MultimemForm& form) {
  if (plan.shape.ranks < 2) return "there is nobody to fold with";
  if (plan.lanes.size() != 1 || plan.scratch_blocks > 0) return "it has several lanes or needs scratch memory";
  Exchange all;
  if (std::string why = read_exchange(plan, all); !why.empty()) return why;
  form = all.folded.empty() ? MultimemForm::ToAll : all.senders.empty() ? MultimemForm::Fold : MultimemForm::FoldToAll;
  return why_not_form(plan, all, form);
}

std::string why_not_nvls(const RankPlan& plan) {
  MultimemForm form{};
  return read_multimem_form(plan, form);
}

}  // namespace tutti::exec
