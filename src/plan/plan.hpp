// A plan: the steps of every rank in a collective, as plain data. Four kinds of step, addressed by 32-bit indices.
//
// A plan knows no message size. Buffers consist of equal blocks (all-reduce: one; all-gather: n of output; …), and a
// call moves one *window* of every block at a time; a *partition* cuts the window into *chunks* by fractions; a *piece*
// names a run of chunks of one block. Scaling the fractions to a call's window is the executor's business.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rank.hpp"
#include "plan/grouping.hpp"
#include "reduce/fold_shape.hpp"
#include "tutti/types.hpp"

namespace tutti::plan {

/// The input of an algorithm. Ranks are relabelled so that the plan's root is 0: rank r becomes (r − root) mod n.
struct Shape {
  Collective collective = Collective::AllReduce;
  Rank ranks = 1;
  std::shared_ptr<const Grouping> groups = nullptr;  ///< of the relabelled ranks; null: groups are unknown
  /// The rank that is relabelled 0: for a reduce whose result must not depend on the root. Others leave it 0.
  Rank root = 0;
  /// The original rank of a relabelled one, and back. The canonical order of folds is that of the original ranks.
  Rank original(Rank rank) const { return static_cast<Rank>((int64_t{rank} + root) % ranks); }
  Rank relabelled(Rank rank) const { return static_cast<Rank>((int64_t{rank} - root + ranks) % ranks); }
  bool operator==(const Shape&) const = default;
};

enum class StepKind : uint8_t { Copy, Send, Recv, Reduce };
enum class Buffer : uint8_t { Input, Output, Scratch };
inline constexpr int kBuffers = 3;

/// May a reader read a send's pieces in place, instead of a copy made when the step ran? The algorithm claims it and
/// the verifier proves it: the plan's messages order every later write to the pieces after the readers' use.
/// OutOfPlace: only when the call's input and output are different memory.
enum class Lend : uint8_t { Never, OutOfPlace, Always };

inline constexpr uint32_t kNone = 0xffffffff;

/// A half-open range of a table.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

struct Fraction {
  uint32_t num = 0;
  uint32_t den = 1;
  bool operator==(const Fraction&) const = default;
};

/// `parts` chunks. Boundary i is i/parts, or `fractions[bounds + i]` (parts + 1 of them, from 0 to 1) where bounds ≠
/// kNone.
struct Partition {
  uint32_t parts = 1;
  uint32_t bounds = kNone;
  bool operator==(const Partition&) const = default;
};

/// Chunks [first, last) of a partition of the window of one block: contiguous in memory.
struct Piece {
  Buffer buffer = Buffer::Input;
  uint32_t block = 0;
  uint32_t partition = 0;
  uint32_t first = 0;
  uint32_t last = 1;
  bool operator==(const Piece&) const = default;
};

/// An operand of a Reduce or the source of a Copy: local pieces, or (peer ≠ kNoRank) the next message of a peer.
struct Operand {
  Rank peer = kNoRank;
  Range pieces;
  bool operator==(const Operand&) const = default;
};

/// Copy: pieces ← operands[0], local.  Send: the concatenation of pieces to every peer.  Recv: pieces ← next message of
/// peers[0].  Reduce: pieces ← fold of the operands in their order.
struct Step {
  StepKind kind = StepKind::Copy;
  FoldShape shape = FoldShape::Left;  ///< Reduce: how the operands are bracketed
  bool completes = false;             ///< Reduce: the result holds every rank's contribution (a claim, proven)
  Lend lend = Lend::Never;            ///< Send
  Range pieces;
  Range peers;
  Range operands;
  uint32_t after = kNone;  ///< index of a step of another lane that must be done, in this round, before this one starts
  bool operator==(const Step&) const = default;
};

/// Lane i of a rank exchanges messages with lane i of other ranks only; lanes never share a link.
struct Lane {
  Range steps;
  bool operator==(const Lane&) const = default;
};

/// The plan of one rank.
struct RankPlan {
  Shape shape;
  Rank rank = 0;
  uint32_t scratch_blocks = 0;  ///< scratch, in windows
  uint32_t grain = 1;           ///< 1/grain of the window is the smallest chunk; the same on all ranks
  std::vector<Lane> lanes;
  std::vector<Step> steps;
  std::vector<Piece> pieces;
  std::vector<Rank> peers;
  std::vector<Operand> operands;
  std::vector<Partition> partitions;
  std::vector<Fraction> fractions;
  bool operator==(const RankPlan&) const = default;
};

/// Number of blocks of the call's input or output on `rank` (0: the rank has no such buffer).
uint32_t blocks(Collective collective, Rank ranks, Buffer buffer, Rank rank);
inline uint32_t blocks(const Shape& shape, Buffer buffer, Rank rank) {
  return blocks(shape.collective, shape.ranks, buffer, rank);
}

/// Boundary `index` (0 … parts) of a partition.
Fraction boundary(const RankPlan& plan, uint32_t partition, uint32_t index);

/// Where fraction `f` of a window of `count` elements falls, in elements. Monotone in f; 0 at 0, count at 1; a multiple
/// of 128 B when every chunk of the plan (1/grain of the window or more) holds that much.
uint64_t cut(Fraction f, uint64_t count, uint32_t element_bytes, uint32_t grain);

/// 64-bit hash of a rank plan's shape and steps as they stand in the tables.
uint64_t hash_of(const RankPlan& plan);
/// The same of the plans of several ranks, in their order.
uint64_t hash_of(std::span<const RankPlan> plans);

}  // namespace tutti::plan
