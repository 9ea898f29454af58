// Trees as plans.
//
// A tree that carries a part of a block from its root: each rank receives it from its parent and passes it on to its
// children. The other way round, each rank folds what its children send with its own part, and sends that to its
// parent.
//
// Lanes. Trees are given out to lanes in turn, one after the other: trees of different lanes do not wait for each
// other. Within a lane each rank does its steps for one tree, then for the next, in the same order everywhere. So the
// earliest tree that some rank has not finished can always go on, and nothing deadlocks, however few messages a link
// holds.
//
// All-reduce cuts the buffer into a block for each rank, or into parts of which each tree carries some. It goes up each
// tree, and down again in a second lane (`after` the root's fold), so that a round goes up while the one before goes
// down.
//
// Between hosts, messages downwards have a lane of their own. A send ends when all its readers have the message; in one
// lane, those of the same host would wait for the network in each round, and their links would be idle meanwhile. Where
// there are not so many lanes, a lane for each tree is worth more.
#include <algorithm>

#include "plan/builder.hpp"
#include "synth/synthesize.hpp"

namespace tutti::synth {
namespace {

using plan::LaneBuilder;
using plan::PlanBuilder;
using plan::Source;
using plan::View;

constexpr size_t kMaxLanes = 64, kMaxAllLanes = 16384;  // of a rank, of all ranks: the plan format's limits

/// A tree, as one rank sees it.
struct Place {
  Rank parent = kNoRank;
  std::vector<Rank> children;
};

/// The chunks that a tree carries.
struct Chunks {
  Rank block, first, last;
  plan::Piece of(const View& view) const { return view.chunks(block, first, last); }
};

class RankPlanner {
 public:
  RankPlanner(const Synthesis& synthesis, const std::vector<std::vector<std::vector<Rank>>>& children, Rank me)
      : made_(synthesis),
        children_(children),
        me_(me),
        ranks_(static_cast<Rank>(synthesis.trees.front().parents.size())),
        plan_({synthesis.collective, ranks_}, me),
        partition_(plan_.partition(static_cast<Rank>(made_.parts * (whole() ? blocks() : 1)))),
        in_(plan_.input(partition_)),
        out_(plan_.output(partition_)),
        ways_(1) {
    const bool several = !made_.hosts.empty() && *std::max_element(made_.hosts.begin(), made_.hosts.end()) > 0;
    const size_t lanes = made_.trees.size() * (gathers() ? 2 : 3);
    if (several && lanes <= std::min(kMaxLanes, kMaxAllLanes / static_cast<size_t>(ranks_))) ways_ = 2;
  }

  plan::RankPlan build() {
    const bool up = !gathers(), down = gathers() || made_.collective == Collective::AllReduce;
    const size_t most = std::min(kMaxLanes, kMaxAllLanes / static_cast<size_t>(ranks_));
    const size_t lanes = std::clamp<size_t>(most / ((up ? 1 : 0) + (down ? ways_ : 0)), 1, made_.trees.size());
    for (size_t lane = 0; lane < lanes; ++lane) {
      std::vector<plan::StepRef> turns;
      if (up) {
        LaneBuilder folds = plan_.lane();
        const View partial = needs_scratch(lane, lanes) ? plan_.scratch(1, partition_) : in_;
        for (size_t tree = lane; tree < made_.trees.size(); tree += lanes) turns.push_back(go_up(folds, tree, partial));
      }
      if (!down) continue;
      std::vector<LaneBuilder> ways;
      while (ways.size() < ways_) ways.push_back(plan_.lane());
      for (size_t tree = lane, i = 0; tree < made_.trees.size(); tree += lanes, ++i) {
        go_down(ways, tree, up ? turns[i] : plan::StepRef{});
      }
    }
    return plan_.finish();
  }

 private:
  bool gathers() const {
    return made_.collective == Collective::AllGather || made_.collective == Collective::Broadcast;
  }
  /// Is the buffer one block, which the collective does not divide among the ranks?
  bool whole() const {
    return made_.collective == Collective::AllReduce || made_.collective == Collective::Broadcast ||
           made_.collective == Collective::Reduce;
  }
  /// Which has a tree's part, of the whole buffer.
  Rank blocks() const { return made_.collective == Collective::AllReduce && !made_.of_buffer ? ranks_ : 1; }

  Place place(size_t tree) const {
    const auto me = static_cast<size_t>(me_);
    return {made_.trees[tree].parents[me], children_[tree][me]};
  }

  /// Trees of one root carry consecutive parts of its block, or all trees those of the one block.
  Chunks chunks(size_t tree) const {
    const Tree& of = made_.trees[tree];
    const auto same_block = [&](const Tree& other) { return made_.of_buffer || other.root == of.root; };
    int64_t first = 0;
    for (size_t i = tree; i > 0 && same_block(made_.trees[i - 1]); --i) first += made_.trees[i - 1].copies;
    if (whole() && blocks() > 1) first += of.root * made_.parts;
    return {whole() ? 0 : of.root, static_cast<Rank>(first), static_cast<Rank>(first + of.copies)};
  }

  bool needs_scratch(size_t lane, size_t lanes) const {
    for (size_t tree = lane; tree < made_.trees.size(); tree += lanes) {
      const Place at = place(tree);
      if (at.parent != kNoRank && !at.children.empty()) return true;
    }
    return false;
  }

  /// The lane of a message downwards, of those of its tree.
  size_t way(Rank from, Rank to) const {
    const auto host = [&](Rank rank) { return made_.hosts[static_cast<size_t>(rank)]; };
    return ways_ > 1 && host(from) != host(to) ? 1 : 0;
  }

  /// All-gather, broadcast: from the root's input. The second half of all-reduce: from the root's output, after `turn`.
  void go_down(std::vector<LaneBuilder>& lanes, size_t tree, plan::StepRef turn) {
    const Place at = place(tree);
    const Chunks chunks = this->chunks(tree);
    const bool from_input = at.parent == kNoRank && gathers();
    const plan::Piece here = from_input ? in_.chunks(0, chunks.first, chunks.last) : chunks.of(out_);
    size_t came = lanes.size();  // in which lane
    if (at.parent != kNoRank) {
      came = way(at.parent, me_);
      turn = lanes[came].recv(here, at.parent);
    }
    for (size_t i = 0; i < lanes.size(); ++i) {
      std::vector<Rank> children;
      for (const Rank child : at.children) {
        if (way(me_, child) == i) children.push_back(child);
      }
      if (children.empty()) continue;
      if (came != i && !from_input) lanes[i].after(turn);
      lanes[i].lend(here, children);
    }
    if (from_input) lanes.front().copy(chunks.of(out_), here);
  }

  /// Reduce-scatter, reduce, the first half of all-reduce. Returns the root's last step.
  plan::StepRef go_up(LaneBuilder& lane, size_t tree, const View& partial) {
    const Place at = place(tree);
    const Chunks chunks = this->chunks(tree);
    if (at.children.empty()) return lane.lend(chunks.of(in_), at.parent);
    std::vector<Source> sources = {chunks.of(in_)};
    for (const Rank child : at.children) sources.push_back(LaneBuilder::from(child));
    if (at.parent == kNoRank) return lane.complete(out_.chunks(0, chunks.first, chunks.last), sources);
    const plan::Piece sum = partial.chunks(0, chunks.first, chunks.last);
    lane.reduce(sum, sources);
    return lane.send(sum, at.parent);
  }

  const Synthesis& made_;
  const std::vector<std::vector<std::vector<Rank>>>& children_;  // by tree, by rank
  Rank me_, ranks_;
  PlanBuilder plan_;
  uint32_t partition_;
  View in_, out_;
  size_t ways_;  // lanes of a tree, downwards
};

/// Ranks counted from the root.
Synthesis from_root(Synthesis made) {
  const auto ranks = static_cast<Rank>(made.trees.front().parents.size());
  const auto relabelled = [&](Rank rank) { return rank == kNoRank ? kNoRank : (rank - made.root + ranks) % ranks; };
  for (Tree& tree : made.trees) {
    tree.root = relabelled(tree.root);
    for (Rank& rank : tree.order) rank = relabelled(rank);
    for (Rank& parent : tree.parents) parent = relabelled(parent);
    std::rotate(tree.parents.begin(), tree.parents.begin() + made.root, tree.parents.end());
  }
  if (!made.hosts.empty()) std::rotate(made.hosts.begin(), made.hosts.begin() + made.root, made.hosts.end());
  made.root = 0;
  return made;
}

std::vector<plan::RankPlan> plan_of_one(Collective collective) {
  PlanBuilder plan({collective, 1}, 0);
  plan.lane().copy(plan.output().all(), plan.input().all());
  return {plan.finish()};
}

}  // namespace

std::vector<plan::RankPlan> plans_of(const Synthesis& synthesis) {
  if (synthesis.trees.empty()) return plan_of_one(synthesis.collective);
  if (synthesis.root != 0) return plans_of(from_root(synthesis));
  std::vector<std::vector<std::vector<Rank>>> children;
  for (const Tree& tree : synthesis.trees) children.push_back(tree.children());
  std::vector<plan::RankPlan> plans;
  const auto ranks = static_cast<Rank>(synthesis.trees.front().parents.size());
  for (Rank me = 0; me < ranks; ++me) plans.push_back(RankPlanner(synthesis, children, me).build());
  return plans;
}

}  // namespace tutti::synth
