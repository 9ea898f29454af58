#include "synth/pack.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>
#include <tuple>

#include "base/format.hpp"
#include "synth/flow.hpp"

namespace tutti::synth {
namespace {

/// A tree that grows.
struct Batch {
  Tree tree;
  std::vector<Rank> depth;  // by rank; −1: no member
  bool holds(Vertex rank) const { return depth[rank] >= 0; }
  bool whole() const { return tree.order.size() == depth.size(); }
};

class Packing {
 public:
  Packing(const Network& network, const Demand& demand)
      : ranks_(static_cast<Vertex>(network.ranks)), arcs_(network.arcs) {
    for (uint32_t i = 0; i < arcs_.size(); ++i) {
      if (arcs_[i].from >= ranks_ || arcs_[i].to >= ranks_)
        throw_error(Code::InvalidArgument, "trees are packed into a network without switches");
    }
    out_.resize(ranks_);
    for (uint32_t i = 0; i < arcs_.size(); ++i) out_[arcs_[i].from].push_back(i);
    for (Vertex rank = 0; rank < ranks_; ++rank) {
      if (demand[rank] == 0) continue;
      Batch batch;
      batch.tree.root = static_cast<Rank>(rank);
      batch.tree.copies = demand[rank];
      batch.tree.parents.assign(ranks_, kNoRank);
      batch.tree.order = {batch.tree.root};
      batch.depth.assign(ranks_, -1);
      batch.depth[rank] = 0;
      waiting_.push_back(std::move(batch));
    }
  }

  std::vector<Tree> run(const PackProgress& progress) {
    std::vector<Tree> trees;
    while (!waiting_.empty()) {
      Batch batch = std::move(waiting_.front());
      waiting_.pop_front();
      others_ = 0;
      for (const Batch& other : waiting_) others_ += other.tree.copies;
      make_flow();
      grow(batch);
      trees.push_back(std::move(batch.tree));
      if (progress) progress(trees.size() * ranks_, (trees.size() + waiting_.size()) * ranks_);
    }
    return trees;
  }

 private:
  /// Arcs, and a vertex for each other batch. Flows start at `hub`, which is tied to a member x instead of being it.
  void make_flow() {
    const Vertex hub = ranks_;
    flow_ = std::make_unique<MaxFlow>(ranks_ + 1 + static_cast<Vertex>(waiting_.size()));
    for (const Arc& arc : arcs_) flow_->add(arc.from, arc.to, arc.capacity);
    ties_.clear();
    for (Vertex rank = 0; rank < ranks_; ++rank) ties_.push_back(flow_->add(hub, rank, 0));
    Vertex vertex = hub;
    for (const Batch& other : waiting_) {
      flow_->add(hub, ++vertex, other.tree.copies);
      for (const Rank member : other.tree.order) flow_->add(vertex, static_cast<Vertex>(member), kUnlimited);
    }
  }

  /// How many trees of the batch may grow by an arc.
  Capacity room(const Batch& batch, const Arc& arc) {
    flow_->set(ties_[arc.from], kUnlimited);
    const Capacity room = flow_->value(ranks_, arc.to) - others_;
    flow_->set(ties_[arc.from], 0);
    return std::min({batch.tree.copies, arc.capacity, room});
  }

  void grow(Batch& batch) {
    using Key = std::tuple<Rank, Capacity, uint32_t>;  // depth, −capacity, arc
    std::priority_queue<Key, std::vector<Key>, std::greater<>> next;
    const auto offer = [&](Vertex member) {
      for (const uint32_t i : out_[member]) {
        if (arcs_[i].capacity > 0 && !batch.holds(arcs_[i].to))
          next.emplace(batch.depth[member], -arcs_[i].capacity, i);
      }
    };
    for (const Rank member : batch.tree.order) offer(static_cast<Vertex>(member));
    while (!batch.whole()) {
      if (next.empty()) throw_error(Code::InvalidArgument, "the network does not support so many trees");
      const uint32_t number = std::get<uint32_t>(next.top());
      next.pop();
      Arc& arc = arcs_[number];
      if (batch.holds(arc.to) || arc.capacity == 0) continue;
      const Capacity trees = room(batch, arc);
      if (trees <= 0) continue;
      if (trees < batch.tree.copies) divide(batch, trees);
      arc.capacity -= trees;
      flow_->set(number, arc.capacity);
      batch.tree.parents[arc.to] = static_cast<Rank>(arc.from);
      batch.tree.order.push_back(static_cast<Rank>(arc.to));
      batch.depth[arc.to] = batch.depth[arc.from] + 1;
      offer(arc.to);
    }
  }

  /// The batch keeps so many trees; the others wait, as they are.
  void divide(Batch& batch, int64_t keeps) {
    Batch rest = batch;
    rest.tree.copies -= keeps;
    batch.tree.copies = keeps;
    others_ += rest.tree.copies;
    waiting_.push_front(std::move(rest));
    make_flow();
  }

  Vertex ranks_;
  std::vector<Arc> arcs_;                   // with the capacity that is left
  std::vector<std::vector<uint32_t>> out_;  // by rank, its arcs
  std::deque<Batch> waiting_;
  int64_t others_ = 0;  // trees of the batches that wait
  std::unique_ptr<MaxFlow> flow_;
  std::vector<uint32_t> ties_;  // by rank: the flow's arc from the hub
};

}  // namespace

std::vector<std::vector<Rank>> Tree::children() const {
  std::vector<std::vector<Rank>> children(parents.size());
  for (const Rank rank : order) {
    if (rank != root) children[static_cast<size_t>(parents[static_cast<size_t>(rank)])].push_back(rank);
  }
  return children;
}

Rank Tree::depth() const {
  std::vector<Rank> depth(parents.size());
  Rank most = 0;
  for (const Rank rank : order) {
    const auto r = static_cast<size_t>(rank);
    depth[r] = rank == root ? 0 : depth[static_cast<size_t>(parents[r])] + 1;
    most = std::max(most, depth[r]);
  }
  return most;
}

std::vector<Tree> pack(const Network& network, const Demand& demand, const PackProgress& progress) {
  std::vector<Tree> trees = Packing(network, demand).run(progress);
  std::stable_sort(trees.begin(), trees.end(), [](const Tree& a, const Tree& b) { return a.root < b.root; });
  return trees;
}

}  // namespace tutti::synth
