// A program that is ready to run, and what a call brings to it.
#pragma once

#include <cstdint>
#include <utility>

#include "exec/program.hpp"
#include "link/link.hpp"
#include "tutti/types.hpp"

namespace tutti::exec {

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
  uint64_t tag = 0;               ///< 48 bits, equal on all ranks
  const void* scale = nullptr;    ///< pre-multiplied sums: one element, or
  bool scale_by_address = false;  ///< the address of one in the backend's memory
  void* stream = nullptr;         ///< on which an asynchronous backend enqueues the call
  bool more_follow = false;       ///< it may be started with the next call: Backend::start_held()
  bool numbered = true;           ///< an asynchronous backend adds the number that it gives the call to the tag
};

/// A program that is ready to run on its backend.
class Execution {
 public:
  explicit Execution(Program program)
      : program_(std::move(program)), sent_(sent_bytes(program_)), received_(received_bytes(program_)) {}
  virtual ~Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  const Program& program() const { return program_; }
  /// Bytes that this rank sends in a call.
  uint64_t sent() const { return sent_; }
  /// Bytes that it receives.
  uint64_t received() const { return received_; }

 private:
  const Program program_;
  const uint64_t sent_, received_;
};

}  // namespace tutti::exec
