// The trace of a rank's calls on one communicator: always on, so it leaves out most of many short calls in a row.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "comm/call_board.hpp"
#include "comm/call_totals.hpp"
#include "trace/rank_trace.hpp"
#include "trace/ring.hpp"
#include "tutti/error.hpp"

namespace tutti::comm {

/// The thread that makes the calls writes it; any thread reads it.
class CallTrace {
 public:
  /// It adds to `totals` how long calls last and wait.
  explicit CallTrace(CallTotals& totals) : totals_(totals) {}

  static constexpr uint64_t kLong = 1 << 14;  ///< elements of a call that is always traced
  /// Short calls since the last long one, or long wait, that are traced; of further ones one in 64, those of this
  /// rarity.
  static constexpr uint32_t kInARow = 64;
  static constexpr uint32_t kRare = 6;

  /// How rare a call's number is: one in 2^n has rarity n or more. A sample by it is the same on all ranks, and meets
  /// all calls of a program that repeats itself (Knuth: The Art of Computer Programming, volume 3, 6.4: multiplicative
  /// hashing).
  static constexpr uint32_t rarity(uint64_t number) {
    return static_cast<uint32_t>(std::countl_zero(scattered(number)));
  }

  /// A call with this key on the board begins on the host, …
  void enter(uint64_t key, const CallSpec& spec) {
    if (is_traced(key, spec)) write_entered(key, spec, trace::Event::Kind::Entered);
  }
  /// … or is enqueued on a device.
  void enqueue(uint64_t key, const CallSpec& spec) {
    if (is_traced(key, spec)) write_entered(key, spec, trace::Event::Kind::Enqueued);
  }
  /// The rank's call on a window with this number, and so many bytes, is to be traced. These are sampled apart: which
  /// collectives are traced is the same on all ranks.
  bool samples_one_sided(uint64_t number, uint64_t bytes) {
    return bytes >= kLong || takes_one(one_sided_ahead_) || is_rare(number);
  }
  /// It begins.
  void enter_one_sided(uint64_t number, const CallSpec& spec) {
    write_entered(one_sided_key(number), spec, trace::Event::Kind::Entered);
  }
  /// The call, or all of a group, have ended well.
  void leave() {
    if (open_ != nullptr) [[unlikely]]
      write_left(Code::Ok);
  }
  /// The call entered last, which is on `board`, or its group, has failed: that is always traced.
  void fail(const CallBoard& board, Code code);
  /// The call entered last, which is on `board`, has waited for a peer (kNoRank: for several) and goes on now.
  void waited(const CallBoard& board, Rank peer, trace::Clock::time_point since);

  trace::Ring::Events events() const { return ring_.read(); }
  /// Reads an event of a beginning: Entered, Within or Enqueued.
  static trace::TracedCall call_of(const trace::Event& event);

 private:
  bool is_traced(uint64_t key, const CallSpec& spec) {
    if (spec.count >= kLong) {
      traced_ahead_ = kInARow;
      return true;
    }
    return takes_one(traced_ahead_) || is_rare(key);
  }
  static constexpr uint64_t scattered(uint64_t number) { return number * 0x9e3779b97f4a7c15; }
  /// Is its rarity kRare or more?
  static_assert(0 < kRare && kRare < 64);
  static constexpr bool is_rare(uint64_t number) { return scattered(number) >> (64 - kRare) == 0; }
  static bool takes_one(uint32_t& ahead) {
    if (ahead == 0) return false;
    --ahead;
    return true;
  }
  void open(uint64_t at, const CallSpec& spec);
  bool open_late(const CallBoard& board, uint64_t at);
  void write_entered(uint64_t key, const CallSpec& spec, trace::Event::Kind kind);
  void write_left(Code code);

  CallTotals& totals_;
  trace::Ring ring_;
  CallTotal* open_ = nullptr;  // of the call that runs, if it has been written
  uint64_t entered_ = 0;       // that call; nanoseconds
  bool is_long_ = false;       // it has kLong elements
  // Short calls that are still traced whatever their number; a long call or a long wait sets it anew.
  uint32_t traced_ahead_ = kInARow;
  uint32_t one_sided_ahead_ = kInARow;
};

}  // namespace tutti::comm
