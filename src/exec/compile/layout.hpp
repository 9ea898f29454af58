// Where the pieces of a plan lie in a call's buffers: bytes, for one window size.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/compile/lower.hpp"

namespace tutti::exec {

/// Contiguous bytes of one operand or destination.
struct Run {
  Base base = Base::None;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
using Runs = std::vector<Run>;

uint64_t total(const Runs& runs);

/// Walks along runs.
class RunCursor {
 public:
  explicit RunCursor(const Runs& runs) : runs_(&runs) {}
  uint64_t left() const { return (*runs_)[at_].bytes - done_; }
  Ref take(uint64_t bytes) {
    const Run& run = (*runs_)[at_];
    const Ref ref{run.base, run.offset + done_};
    done_ += bytes;
    if (done_ == run.bytes) ++at_, done_ = 0;
    return ref;
  }

 private:
  const Runs* runs_;
  size_t at_ = 0;
  uint64_t done_ = 0;
};

class Layout {
 public:
  Layout(const plan::RankPlan& plan, const Geometry& geometry, uint64_t window)
      : plan_(plan), geometry_(geometry), window_(window) {}
  /// The runs of these pieces, in order; pieces that follow each other in memory are one.
  Runs runs_of(plan::Range pieces) const;
  /// The communicator's rank of a plan's rank.
  Rank actual(Rank planned) const { return geometry_.order.actual(planned, geometry_.root, plan_.shape.ranks); }
  /// Bytes of a scratch block.
  static uint64_t scratch_window(const Geometry& geometry);

 private:
  uint64_t cut(const plan::Piece& piece, uint32_t index) const;
  uint64_t block_offset(const plan::Piece& piece) const;

  const plan::RankPlan& plan_;
  const Geometry& geometry_;
  uint64_t window_;
};

}  // namespace tutti::exec
