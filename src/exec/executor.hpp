// The seam for every kind of processor: an executor compiles plans into executions, and runs them.
//
//   compile   plan + sizes + what the links can do → an Execution, kept for repeated calls
//   launch    binds buffers and tag, and starts it
//   poll      moves what can be moved; or drain: runs it to its end
//   abort     ends it; afterwards no other rank touches its buffers
//
// An executor serves one rank of one communicator and runs one execution at a time, since calls have an order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "exec/compile/direct.hpp"
#include "exec/memory_kind.hpp"
#include "exec/program.hpp"
#include "link/link.hpp"
#include "plan/plan.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

struct Backoff;  // exec/host/wait.hpp: how the calling thread waits

/// How a call folds elements.
struct Reduction {
  DType type = DType::U8;
  Op op = Op::Sum;
  uint32_t divide_by = 0;   ///< averages: completing folds divide by this
  bool round_each = false;  ///< reproducible mode: small floats round at every node
};

/// What a call brings to its program. All that it points to outlives the call.
struct Binding {
  const void* in = nullptr;
  void* out = nullptr;
  const link::SharedRegion* in_region = &link::kNoRegion;  ///< that holds `in`
  const link::SharedRegion* out_region = &link::kNoRegion;
  uint64_t tag = 0;              ///< 48 bits, equal on all ranks
  const void* scale = nullptr;   ///< pre-multiplied sums: one element
  bool scale_on_device = false;  ///< of a device: `scale` holds the address of the element there
  void* stream = nullptr;        ///< of a device: the stream on which the call is enqueued
  bool numbered = true;          ///< of a device: the tag is `tag` plus the number of the collective there
};

/// A program that is ready to run on its executor.
class Execution {
 public:
  explicit Execution(Program program) : program_(std::move(program)), sent_(sent_bytes(program_)) {}
  virtual ~Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  const Program& program() const { return program_; }
  /// Bytes that this rank sends in a call.
  uint64_t sent() const { return sent_; }

 private:
  const Program program_;
  const uint64_t sent_;
};

class Executor {
 public:
  virtual ~Executor() = default;

  /// Connects the links that the program needs. Throws what lower() and connecting throw. `reduction`: null if the plan
  /// folds nothing.
  virtual std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                             const Reduction* reduction) = 0;
  virtual std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) = 0;

  /// Starts a call. Throws Error(OutOfMemory) if there is no staging memory, and what waiting for that throws.
  virtual void launch(Execution& execution, const Binding& binding) = 0;
  /// One pass over the running call; never waits. True if anything moved, or the call ended.
  virtual bool poll() = 0;
  /// Runs the call to its end. When it has failed, abort() has been called.
  virtual void drain() = 0;
  /// Ends a call that cannot continue. Withdraws what it has lent and offered, and waits, within limits, until no other
  /// rank uses its buffers. Without a running call it does the same for what earlier calls have left.
  virtual void abort() = 0;

  /// For callers of poll(), while nothing has moved for `seconds`: ends the call if the communicator has failed. If a
  /// rank was lost, what it had sent may still arrive, through other ranks too: then only a while later.
  virtual void check_failure(double seconds) = 0;
  /// …, and reports the stall `stall_id`, which has lasted for `seconds`.
  virtual void check_stall(double seconds, uint64_t stall_id) = 0;
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
void drain_one(std::span<Executor* const> executors, const Backoff& backoff);

}  // namespace tutti::exec
