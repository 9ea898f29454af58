// All-gather, reduce-scatter and all-reduce out of one list of exchanges.
//
// Where all ranks do the same, each from its own place, an algorithm is defined by which peers a rank has in each step,
// and which blocks it gives and takes. As an all-gather: give what you have, take what you lack. If every rank takes
// every block once, the ways of a block from its owner to all others form a tree. Walked backwards, from all others to
// the owner, with a fold where ways meet, it is a reduction: so the same list backwards is a reduce-scatter; and that,
// then the all-gather, is an all-reduce.
#pragma once

#include <functional>
#include <span>

#include "algorithms/common.hpp"

namespace tutti::algorithms {

/// One step of a rank in an all-gather: it sends the blocks `give` to `to` and receives `take` from `from`, both in the
/// order in which they stand in the message.
struct Exchange {
  Rank to = 0;
  Rank from = 0;
  std::vector<Rank> give;
  std::vector<Rank> take;
};
using Exchanges = std::vector<Exchange>;

using PieceOf = std::function<Piece(Rank block)>;

inline Pieces pieces_of(const std::vector<Rank>& blocks, const PieceOf& piece_of) {
  Pieces pieces;
  for (const Rank b : blocks) pieces += piece_of(b);
  return pieces;
}

/// Are the places of sums that were sent used again, within a round, for later ones?
enum class Places { Once, Again };

/// Where a rank's partial sum of each block lies: in its input until something is folded into it, then at its `place`.
class PartialSums {
 public:
  PartialSums(Rank blocks, const PieceOf& input, PieceOf place, Places places = Places::Once)
      : place_(std::move(place)), places_(places) {
    for (Rank b = 0; b < blocks; ++b) where_.push_back(input(b));
  }
  const Piece& at(Rank block) const { return where_[static_cast<size_t>(block)]; }
  Pieces of(const std::vector<Rank>& blocks) const {
    return pieces_of(blocks, [&](Rank b) { return at(b); });
  }
  /// Where the sums of these blocks lie once something is folded into them.
  Pieces moved(const std::vector<Rank>& blocks) {
    for (const Rank b : blocks) {
      if (at(b).buffer != Buffer::Input) continue;
      if (free_.empty()) free_.push_back(place_(b));
      where_[static_cast<size_t>(b)] = free_.back();
      free_.pop_back();
    }
    return of(blocks);
  }
  /// These sums are needed no more. Returns what may be claimed of the message that they were sent in: nothing if later
  /// sums may take their places.
  Lend left(const std::vector<Rank>& blocks) {
    if (places_ == Places::Once) return Lend::Always;
    const size_t before = free_.size();
    for (auto b = blocks.rbegin(); b != blocks.rend(); ++b) {  // the first to be left is the first to be taken
      if (at(*b).buffer != Buffer::Input) free_.push_back(at(*b));
    }
    return free_.size() == before ? Lend::Always : Lend::Never;
  }

 private:
  PieceOf place_;
  Places places_;
  std::vector<Piece> where_;
  std::vector<Piece> free_;
};

/// The steps of an all-gather. Each block is sent from, and received to, its place in the output.
inline void gather_along(std::span<const Exchange> exchanges, LaneBuilder& lane, const PieceOf& out) {
  for (const Exchange& e : exchanges) {
    lane.lend(pieces_of(e.give, out), e.to);
    lane.recv(pieces_of(e.take, out), e.from);
  }
}

/// The same backwards: takers send their sums back to the giver, who folds them in. The last fold completes `result`,
/// the rank's own block, with the operands `also`.
inline StepRef fold_back(const Exchanges& exchanges, LaneBuilder& lane, PartialSums& sums, const Piece& result,
                         const std::vector<Source>& also = {}) {
  StepRef last;
  for (auto e = exchanges.rbegin(); e != exchanges.rend(); ++e) {
    lane.lend(sums.of(e->take), e->from, sums.left(e->take));
    std::vector<Source> sources = {sums.of(e->give), LaneBuilder::from(e->to)};
    if (e + 1 != exchanges.rend()) {
      lane.reduce(sums.moved(e->give), sources);
    } else {
      sources.insert(sources.end(), also.begin(), also.end());
      last = lane.complete(result, sources);
    }
  }
  return last;
}

/// Of two ranks at least.
inline void all_gather_along(const Exchanges& exchanges, Rank me, PlanBuilder& plan) {
  const View in = plan.input(), out = plan.output();
  const auto block = [&](Rank b) { return out.block(b); };
  const Exchange& first = exchanges.front();  // it gives the rank's own block, for it has no other yet
  auto lane = plan.lane();
  lane.lend(in.all(), first.to);  // before the copy, for which the peer need not wait
  lane.copy(out.block(me), in.all());
  lane.recv(pieces_of(first.take, block), first.from);
  gather_along(std::span(exchanges).subspan(1), lane, block);
}

/// Partial sums lie in scratch.
inline void reduce_scatter_along(const Exchanges& exchanges, const Shape& shape, PlanBuilder& plan,
                                 Places places = Places::Once) {
  const View in = plan.input();
  const auto scratch = [&](Rank) { return plan.scratch(1).all(); };
  PartialSums sums(
      shape.ranks, [&](Rank b) { return in.block(b); }, scratch, places);
  auto lane = plan.lane();
  fold_back(exchanges, lane, sums, plan.output().all());
}

/// Of n chunks; partial sums lie where their result will be, and so outlive every reader: whatever overwrites them is
/// made of what was read. The two phases are lanes of their own: while one window is gathered, the next is folded.
inline void all_reduce_along(const Exchanges& exchanges, const Shape& shape, Rank me, PlanBuilder& plan) {
  const uint32_t chunks = plan.partition(shape.ranks);
  const View in = plan.input(chunks), out = plan.output(chunks);
  const auto chunk = [&](Rank c) { return out[c]; };
  PartialSums sums(
      shape.ranks, [&](Rank c) { return in[c]; }, chunk);
  auto fold = plan.lane(), gather = plan.lane();
  gather.after(fold_back(exchanges, fold, sums, out[me]));
  gather_along(exchanges, gather, chunk);
}

}  // namespace tutti::algorithms
