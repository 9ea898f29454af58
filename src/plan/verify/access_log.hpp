// The last accesses to each location: enough to find every pair of unordered accesses.
//
// Steps arrive in an order that contains happens-before, so an access races with some earlier one if and only if it is
// not ordered after the last write, or (writing) after some read since (the argument of FastTrack; Flanagan & Freund,
// PLDI 2009).
#pragma once

#include <vector>

#include "plan/verify/clocks.hpp"
#include "plan/verify/model.hpp"

namespace tutti::plan::verifier {

/// A step of a lane, numbered from 1 over all rounds.
struct Access {
  uint32_t lane = 0;
  uint32_t time = 0;
};

/// The access that another one clashes with. `send`: the lent message that was being read, or kNone.
struct Clash {
  uint32_t location = 0;
  Access writer, other;
  uint32_t send = kNone;
};

/// The accesses to all locations of the first `ranks` ranks, in one mode: in place or out of place.
class AccessLog {
 public:
  AccessLog(const Model& model, const Clocks& clocks, uint32_t ranks, bool in_place, uint32_t versions,
            uint32_t rounds);

  bool in_place() const { return in_place_; }
  /// Each calls report(Clash) for unordered accesses. `rank` owns the piece.
  template <class Report>
  void read(uint32_t rank, const Piece& piece, uint32_t round, Access by, Report&& report) {
    each(rank, piece, round, [&](size_t at, uint32_t location) {
      const Write& last = writes_[at];
      if (!ordered(last.by, by)) report(Clash{location, last.by, by, kNone});
      add_read(at, by, kNone);
    });
  }
  /// A reader on another rank has finished with memory that step `send` lent at `lent_at`.
  template <class Report>
  void read_lent(uint32_t rank, const Piece& piece, uint32_t round, Access by, uint32_t send, uint64_t lent_at,
                 Report&& report) {
    each(rank, piece, round, [&](size_t at, uint32_t location) {
      // Writes before the send are ordered before it: the check of the send's own read has shown that.
      if (writes_[at].when > lent_at) report(Clash{location, writes_[at].by, by, send});
      add_read(at, by, send);
    });
  }
  template <class Report>
  void write(uint32_t rank, const Piece& piece, uint32_t round, Access by, uint64_t now, Report&& report) {
    each(rank, piece, round, [&](size_t at, uint32_t location) {
      if (!ordered(writes_[at].by, by)) report(Clash{location, writes_[at].by, by, kNone});
      for (uint32_t r = reads_[at]; r != kNone;) {
        const Read read = pool_[r];
        if (!ordered(read.by, by)) report(Clash{location, by, read.by, read.send});
        free_.push_back(r);
        r = read.next;
      }
      reads_[at] = kNone;
      writes_[at] = {by, now};
    });
  }

 private:
  struct Write {
    Access by;
    uint64_t when = 0;  // in the order of the replay
  };
  struct Read {
    Access by;
    uint32_t send;
    uint32_t next;
  };
  template <class Visit>
  void each(uint32_t rank, const Piece& piece, uint32_t round, const Visit& visit) {
    if (model_.read_only(rank, piece, in_place_)) return;
    // No other round uses a round's window, and order in the first of equal rounds implies order in the others.
    if (piece.buffer != Buffer::Scratch && round >= window_rounds_) return;
    const Run run = model_.run_of(rank, piece, in_place_);
    // Rounds touch different windows of input and output, and the versions of scratch in turn.
    const uint32_t copy = piece.buffer == Buffer::Scratch ? round % versions_ : round;
    const size_t first = size_t{copy} * locations_ + run.location;
    for (uint32_t i = 0; i < run.count; ++i) visit(first + i, run.location + i);
  }
  bool ordered(Access before, Access now) const {
    return before.time == 0 || before.lane == now.lane || clocks_.knows(now.lane, before.lane, before.time);
  }
  void add_read(size_t at, Access by, uint32_t send);

  const Model& model_;
  const Clocks& clocks_;
  uint32_t locations_;
  bool in_place_;
  uint32_t versions_, window_rounds_;
  std::vector<Write> writes_;
  std::vector<uint32_t> reads_;  // first of a list in pool_
  std::vector<Read> pool_;
  std::vector<uint32_t> free_;
};

}  // namespace tutti::plan::verifier
