// What a rank's calls want of parts of windows on other hosts: steps, from the streams that make the calls to the
// thread that asks the peers (far_caller.hpp). A step is one request: a piece of a put or a get, a signal, an atomic
// step, a flush.
//
//   the host     adds a step, then enqueues what is to be done for it
//   the stream   fills the step's slot, if it is a put's, then posts it: it writes how many steps it has posted
//   the thread   sends the request. Done: a put or signal is on its way, an answer is in the step's slot
//   the stream   waits until so many steps are done, where it needs the slot again, or the answer
//
// Steps are done in their order, so two words tell all: how many are posted, and how many are done. They lie in pinned
// memory, as the slots do, of which steps have one in turn. A slot is the thread's from when its step is posted until
// it is done, and the stream's before and after that.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/rank.hpp"
#include "exec/gpu/far_request.hpp"
#include "exec/gpu/gpu.hpp"

namespace tutti::exec::gpu {

struct FarStep {
  Rank peer = kNoRank;
  FarRequest request;
};

/// Of one rank. One thread adds, one does; words may be read by any.
class FarSteps {
 public:
  static constexpr uint64_t kSlots = 16;
  /// Steps that are not done, at most: what a stream has for them fits its queue.
  static constexpr uint64_t kMaxAhead = 128;

  /// Throws Error(OutOfMemory).
  explicit FarSteps(const Gpu& gpu);
  FarSteps(const FarSteps&) = delete;
  FarSteps& operator=(const FarSteps&) = delete;

  // ---- who makes calls
  bool has_room() const { return added() - done() < kMaxAhead; }
  /// Returns the step's number, from 0. There is room.
  uint64_t add(const FarStep& step);
  uint64_t added() const { return added_.load(std::memory_order_seq_cst); }
  /// Where the GPU has a step's slot, and the words.
  uint64_t slot_at(uint64_t number) const { return slots_at_ + number % kSlots * kFarSlotBytes; }
  uint64_t posted_at() const { return words_at_ + offsetof(Words, posted); }
  uint64_t done_at() const { return words_at_ + offsetof(Words, done); }
  /// A word for who makes calls without a stream.
  uint64_t copied_at() const { return words_at_ + offsetof(Words, copied); }
  uint64_t copied() const;
  /// The host does what a stream would.
  void post(uint64_t steps);

  // ---- any thread
  /// So many are done; more than there ever are: the waits for them were ended.
  uint64_t done() const;
  /// Ends all waits: the communicator has failed, or is gone. Again, if the other thread goes on.
  void release() const;
  /// Some are not done.
  bool is_ahead() const { return done() < added(); }
  /// The peer of the first of them.
  Rank awaited() const { return peers_[done() % kMaxAhead].load(std::memory_order_relaxed); }

  // ---- the thread that does them
  uint64_t posted() const;
  const FarStep& step(uint64_t number) const { return steps_[number % kMaxAhead]; }
  unsigned char* slot(uint64_t number) const { return slots_.get() + number % kSlots * kFarSlotBytes; }
  void set_done(uint64_t steps);

 private:
  struct Words {
    alignas(128) uint64_t posted = 0;
    alignas(128) uint64_t done = 0;
    alignas(128) uint64_t copied = 0;
  };
  const std::shared_ptr<unsigned char> memory_, slots_;  // pinned
  Words& words_;
  const uint64_t words_at_, slots_at_;
  std::array<FarStep, kMaxAhead> steps_;                 // by number
  std::array<std::atomic<Rank>, kMaxAhead> peers_ = {};  // the same of them, for other threads
  std::atomic<uint64_t> added_{0};
};

}  // namespace tutti::exec::gpu
