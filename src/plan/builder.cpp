#include "plan/builder.hpp"

#include <algorithm>

namespace tutti::plan {

Pieces& Pieces::operator+=(const Pieces& more) {
  for (const Piece& next : more.list_) {
    const bool adjoins = !list_.empty() && list_.back().buffer == next.buffer && list_.back().block == next.block &&
                         list_.back().partition == next.partition && list_.back().last == next.first;
    if (adjoins) {
      list_.back().last = next.last;
    } else {
      list_.push_back(next);
    }
  }
  return *this;
}

StepRef LaneBuilder::copy(const Pieces& to, const Pieces& from) {
  Step step{.kind = StepKind::Copy, .pieces = plan_->store(to)};
  const Operand source{.peer = kNoRank, .pieces = plan_->store(from)};
  step.operands = {static_cast<uint32_t>(plan_->plan_.operands.size()),
                   static_cast<uint32_t>(plan_->plan_.operands.size() + 1)};
  plan_->plan_.operands.push_back(source);
  return append(step);
}

StepRef LaneBuilder::send(const Pieces& pieces, std::span<const Rank> peers, Lend lend) {
  auto& table = plan_->plan_.peers;
  Step step{.kind = StepKind::Send, .lend = lend, .pieces = plan_->store(pieces)};
  step.peers.begin = static_cast<uint32_t>(table.size());
  table.insert(table.end(), peers.begin(), peers.end());
  step.peers.end = static_cast<uint32_t>(table.size());
  return append(step);
}

StepRef LaneBuilder::recv(const Pieces& to, Rank peer) {
  auto& table = plan_->plan_.peers;
  Step step{.kind = StepKind::Recv, .pieces = plan_->store(to)};
  step.peers = {static_cast<uint32_t>(table.size()), static_cast<uint32_t>(table.size() + 1)};
  table.push_back(peer);
  return append(step);
}

StepRef LaneBuilder::fold(const Pieces& to, const std::vector<Source>& sources, FoldShape shape, bool completes) {
  auto& table = plan_->plan_.operands;
  Step step{.kind = StepKind::Reduce, .shape = shape, .completes = completes, .pieces = plan_->store(to)};
  step.operands.begin = static_cast<uint32_t>(table.size());
  for (const Source& source : sources) table.push_back({source.peer, plan_->store(source.local)});
  step.operands.end = static_cast<uint32_t>(table.size());
  return append(step);
}

LaneBuilder& LaneBuilder::after(StepRef step) {
  plan_->drafts_[lane_].pending = step;
  return *this;
}

StepRef LaneBuilder::append(Step step) {
  PlanBuilder::Draft& draft = plan_->drafts_[lane_];
  draft.steps.push_back(step);
  draft.after.push_back(std::exchange(draft.pending, StepRef{}));
  return {lane_, static_cast<uint32_t>(draft.steps.size() - 1)};
}

PlanBuilder::PlanBuilder(const Shape& shape, Rank rank) {
  plan_.shape = shape;
  plan_.rank = rank;
  plan_.partitions.push_back({});
}

uint32_t PlanBuilder::partition(Rank parts) {
  plan_.partitions.push_back({static_cast<uint32_t>(parts), kNone});
  plan_.grain = std::max(plan_.grain, static_cast<uint32_t>(parts));
  return static_cast<uint32_t>(plan_.partitions.size() - 1);
}

uint32_t PlanBuilder::partition(std::span<const Fraction> bounds) {
  plan_.partitions.push_back({static_cast<uint32_t>(bounds.size() - 1), static_cast<uint32_t>(plan_.fractions.size())});
  plan_.fractions.insert(plan_.fractions.end(), bounds.begin(), bounds.end());
  for (size_t i = 1; i < bounds.size(); ++i) {
    const double width =
        static_cast<double>(bounds[i].num) / bounds[i].den - static_cast<double>(bounds[i - 1].num) / bounds[i - 1].den;
    if (width > 0) plan_.grain = std::max(plan_.grain, static_cast<uint32_t>(1.0 / width + 0.999999));
  }
  return static_cast<uint32_t>(plan_.partitions.size() - 1);
}

View PlanBuilder::scratch(Rank blocks, uint32_t partition) {
  const View view = this->view(Buffer::Scratch, partition, plan_.scratch_blocks);
  plan_.scratch_blocks += static_cast<uint32_t>(blocks);
  return view;
}

LaneBuilder PlanBuilder::lane() {
  drafts_.emplace_back();
  return {this, static_cast<uint32_t>(drafts_.size() - 1)};
}

Range PlanBuilder::store(const Pieces& pieces) {
  const auto begin = static_cast<uint32_t>(plan_.pieces.size());
  plan_.pieces.insert(plan_.pieces.end(), pieces.list().begin(), pieces.list().end());
  return {begin, static_cast<uint32_t>(plan_.pieces.size())};
}

RankPlan PlanBuilder::finish() {
  std::vector<uint32_t> start;
  for (const Draft& draft : drafts_) {
    const auto begin = static_cast<uint32_t>(plan_.steps.size());
    start.push_back(begin);
    plan_.steps.insert(plan_.steps.end(), draft.steps.begin(), draft.steps.end());
    plan_.lanes.push_back({{begin, static_cast<uint32_t>(plan_.steps.size())}});
  }
  for (size_t lane = 0; lane < drafts_.size(); ++lane) {
    for (size_t i = 0; i < drafts_[lane].after.size(); ++i) {
      const StepRef after = drafts_[lane].after[i];
      if (after.lane != kNone) plan_.steps[start[lane] + i].after = start[after.lane] + after.index;
    }
  }
  return std::move(plan_);
}

}  // namespace tutti::plan
