// A call that has begun and that the calling thread drives: of a backend that has no thread or processor of its own.
#pragma once

#include <cstdint>
#include <span>

#include "base/deadline.hpp"
#include "base/status.hpp"

namespace tutti::exec {

struct Backoff;  // exec/wait.hpp: how the calling thread waits

class Pending {
 public:
  virtual ~Pending() = default;

  /// One pass over the running call; never waits. True if anything moved, or the call ended.
  virtual bool poll() = 0;
  /// Runs the call to its end. When it has failed, abort() has been called.
  virtual void wait() = 0;
  /// Ends a call that cannot continue. Withdraws what it has lent and offered, and waits, within limits, until no other
  /// rank uses its buffers. Without a running call it does the same for what earlier calls have left.
  virtual void abort() = 0;

  /// For callers of poll(), while nothing has moved for `seconds`: ends the call if the communicator has failed. If a
  /// rank was lost, what it had sent may still arrive, through other ranks too: then only a while later.
  virtual void check_failure(double seconds) = 0;
  /// …, and reports the stall `stall_id`, which has lasted for `seconds`.
  virtual void check_stall(double seconds, uint64_t stall_id) = 0;
  /// Nothing has moved for kLongWait (exec/idle_loop.hpp) …
  virtual void long_wait_begins() {}
  /// …, or, as it turns out now, since `began`.
  virtual void long_wait_ends(Deadline::Clock::time_point began) { (void)began; }
  /// Sleeps until something may have happened, at most `seconds`. False: it cannot.
  virtual bool sleep(double seconds) = 0;

  bool done() const { return done_; }
  /// Of the last call, once it is done.
  Status& status() { return status_; }

 protected:
  bool done_ = true;
  Status status_;
};

/// Runs calls until at least one of them is done. The calls that are done and have failed are aborted.
void wait_for_one(std::span<Pending* const> calls, const Backoff& backoff);

}  // namespace tutti::exec
