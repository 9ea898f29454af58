// Builds one rank's plan: views of the buffers, lanes of steps.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace tutti::plan {

/// A sequence of pieces: the content of a message or an operand.
class Pieces {
 public:
  Pieces() = default;
  Pieces(const Piece& piece) : list_{piece} {}  // NOLINT: a piece is a list of one
  Pieces& operator+=(const Pieces& more);       // adjoining pieces become one
  friend Pieces operator+(Pieces a, const Pieces& b) { return a += b; }
  std::span<const Piece> list() const { return list_; }

 private:
  std::vector<Piece> list_;
};

/// A view of a buffer, cut by one partition.
class View {
 public:
  View(Buffer buffer, uint32_t partition, uint32_t parts, uint32_t first_block = 0)
      : buffer_(buffer), partition_(partition), parts_(parts), first_block_(first_block) {}
  /// Chunk `c` of block 0.
  Piece operator[](Rank c) const { return chunks(0, c, c + 1); }
  /// All of block `b`.
  Piece block(Rank b) const { return chunks(b, 0, static_cast<Rank>(parts_)); }
  /// Chunks [first, last) of block `b`.
  Piece chunks(Rank b, Rank first, Rank last) const {
    return {buffer_, first_block_ + static_cast<uint32_t>(b), partition_, static_cast<uint32_t>(first),
            static_cast<uint32_t>(last)};
  }
  /// All of block 0.
  Piece all() const { return block(0); }

 private:
  Buffer buffer_;
  uint32_t partition_;
  uint32_t parts_;
  uint32_t first_block_;
};

/// An operand: local pieces, or a message, lane.from(peer).
struct Source {
  Source(const Piece& piece) : local(piece) {}         // NOLINT: in[c] is an operand
  Source(Pieces pieces) : local(std::move(pieces)) {}  // NOLINT
  explicit Source(Rank from_peer) : peer(from_peer) {}
  Rank peer = kNoRank;
  Pieces local;
};

/// A step that another lane may wait for.
struct StepRef {
  uint32_t lane = kNone;
  uint32_t index = kNone;
};

class PlanBuilder;

/// Appends steps to one lane. Cheap to copy; all copies append to the same lane.
class LaneBuilder {
 public:
  /// The next message of `peer`, as an operand.
  static Source from(Rank peer) { return Source(peer); }

  StepRef copy(const Pieces& to, const Pieces& from);
  /// Sends a copy of the pieces as they are now.
  StepRef send(const Pieces& pieces, std::span<const Rank> peers) { return send(pieces, peers, Lend::Never); }
  StepRef send(const Pieces& pieces, Rank peer) { return send(pieces, {&peer, 1}, Lend::Never); }
  /// Sends pieces that do not change until the readers have used them (see Lend).
  StepRef lend(const Pieces& pieces, std::span<const Rank> peers, Lend when = Lend::Always) {
    return send(pieces, peers, when);
  }
  StepRef lend(const Pieces& pieces, Rank peer, Lend when = Lend::Always) { return send(pieces, {&peer, 1}, when); }
  StepRef recv(const Pieces& to, Rank peer);
  /// to ← fold of the sources in their order; a partial result.
  StepRef reduce(const Pieces& to, const std::vector<Source>& sources, FoldShape shape = FoldShape::Left) {
    return fold(to, sources, shape, false);
  }
  /// The same, with a result that holds every rank's contribution.
  StepRef complete(const Pieces& to, const std::vector<Source>& sources, FoldShape shape = FoldShape::Left) {
    return fold(to, sources, shape, true);
  }
  /// The next step of this lane waits for `step` of another lane, in the same round.
  LaneBuilder& after(StepRef step);

 private:
  friend class PlanBuilder;
  LaneBuilder(PlanBuilder* plan, uint32_t lane) : plan_(plan), lane_(lane) {}
  StepRef send(const Pieces& pieces, std::span<const Rank> peers, Lend lend);
  StepRef fold(const Pieces& to, const std::vector<Source>& sources, FoldShape shape, bool completes);
  StepRef append(Step step);

  PlanBuilder* plan_;
  uint32_t lane_;
};

/// Builds the plan of one rank. All ranks must declare the same partitions in the same order.
class PlanBuilder {
 public:
  PlanBuilder(const Shape& shape, Rank rank);

  /// Declares a partition into `parts` equal chunks, or by a sorted list of fractions from 0 to 1. 0 is the whole
  /// window.
  uint32_t partition(Rank parts);
  uint32_t partition(std::span<const Fraction> bounds);

  View input(uint32_t partition = 0) const { return view(Buffer::Input, partition, 0); }
  View output(uint32_t partition = 0) const { return view(Buffer::Output, partition, 0); }
  /// `blocks` windows of scratch that no earlier call returned.
  View scratch(Rank blocks, uint32_t partition = 0);

  LaneBuilder lane();
  /// Replaces the whole plan by one that was built elsewhere.
  void take_over(RankPlan plan) { plan_ = std::move(plan); }
  /// The finished plan; the builder cannot be used afterwards.
  RankPlan finish();

 private:
  friend class LaneBuilder;
  struct Draft {  // a lane under construction: `after` cannot be an index yet
    std::vector<Step> steps;
    std::vector<StepRef> after;
    StepRef pending;
  };
  View view(Buffer buffer, uint32_t partition, uint32_t first_block) const {
    return {buffer, partition, plan_.partitions[partition].parts, first_block};
  }
  Range store(const Pieces& pieces);

  RankPlan plan_;
  std::vector<Draft> drafts_;
};

}  // namespace tutti::plan
